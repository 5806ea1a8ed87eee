package checkpoint

import (
	"strconv"
	"strings"
	"unicode/utf16"
)

// MetaFile is the name of the file with the node's identity, at the root of a
// log directory.
const MetaFile = "meta.properties"

// Meta is the identity of the node and of the directory.
type Meta struct {
	Version     int32  // 1 since KRaft; 0 if the file does not say
	ClusterID   string // "" if the file does not say
	NodeID      int32  // node.id, in version 0 broker.id; −1 if the file does not say
	DirectoryID string // "" if the file does not say
	// Properties are all keys of the file, those above included.
	Properties map[string]string
}

// ReadMeta reads a meta.properties file. The error is a *FormatError.
func ReadMeta(b []byte) (Meta, error) {
	p, err := readProperties(b)
	if err != nil {
		return Meta{}, err
	}
	m := Meta{NodeID: -1, Properties: make(map[string]string, len(p))}
	for _, e := range p {
		m.Properties[e.key] = e.value
	}
	for _, e := range p {
		s := &lines{n: e.line}
		switch e.key {
		case "version":
			v, err := s.number(e.key, e.value, 32)
			if err != nil {
				return Meta{}, err
			}
			m.Version = int32(v)
		case "node.id", "broker.id":
			v, err := s.number(e.key, e.value, 32)
			if err != nil {
				return Meta{}, err
			}
			if _, both := m.Properties["node.id"]; e.key == "node.id" || !both {
				m.NodeID = int32(v)
			}
		case "cluster.id":
			m.ClusterID = e.value
		case "directory.id":
			m.DirectoryID = e.value
		}
	}
	return m, nil
}

type property struct {
	key, value string
	line       int
}

// readProperties reads the format of java.util.Properties: comment lines that
// begin with '#' or '!', a key, then '=', ':' or white space, then the value;
// a backslash escapes the next character or joins the next line.
func readProperties(b []byte) ([]property, error) {
	var all []property
	s := &lines{rest: b}
	for {
		line, ok := s.next()
		if !ok {
			return all, nil
		}
		line = strings.TrimLeft(line, " \t\f")
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		first := s.n
		for endsInBackslash(line) {
			next, ok := s.next()
			line = line[:len(line)-1]
			if !ok {
				break
			}
			line += strings.TrimLeft(next, " \t\f")
		}
		key, value := splitProperty(line)
		at := &lines{n: first}
		key, err := at.unescape(key)
		if err != nil {
			return nil, err
		}
		value, err = at.unescape(value)
		if err != nil {
			return nil, err
		}
		all = append(all, property{key: key, value: value, line: first})
	}
}

// endsInBackslash tells whether the line goes on in the next: whether it ends
// in an odd number of backslashes.
func endsInBackslash(line string) bool {
	n := len(line) - len(strings.TrimRight(line, `\`))
	return n%2 == 1
}

// splitProperty splits at the first '=', ':' or white space that is not
// escaped, and drops the separator with the white space around it.
func splitProperty(line string) (key, value string) {
	end := 0
	for end < len(line) && !strings.ContainsRune("=: \t\f", rune(line[end])) {
		if line[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(line))
	value = strings.TrimLeft(line[end:], " \t\f")
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], " \t\f")
	}
	return line[:end], value
}

// unescape resolves the escapes of one key or value.
func (s *lines) unescape(text string) (string, error) {
	if !strings.Contains(text, `\`) {
		return text, nil
	}
	var units []uint16 // Java escapes in UTF-16
	runes := []rune(text)
	for i := 0; i < len(runes); i++ {
		c := runes[i]
		if c == '\\' && i+1 < len(runes) {
			i++
			c = runes[i]
			if c == 'u' {
				if i+4 >= len(runes) {
					return "", s.errorf(`\u without four digits`)
				}
				v, err := strconv.ParseUint(string(runes[i+1:i+5]), 16, 16)
				if err != nil {
					return "", s.errorf(`\u without four digits`)
				}
				units = append(units, uint16(v))
				i += 4
				continue
			}
			if at := strings.IndexRune("tnrf", c); at >= 0 {
				c = rune("\t\n\r\f"[at])
			}
		}
		units = utf16.AppendRune(units, c)
	}
	return string(utf16.Decode(units)), nil
}
