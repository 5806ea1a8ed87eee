package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog/internal/vfs"
)

func newDumpCommand() *cobra.Command {
	var format, decoder string
	d := &dumper{fs: vfs.Machine()}
	cmd := &cobra.Command{
		Use:   "dump PATH...",
		Short: "Show what files, partitions or whole log directories hold",
		Long: `Show what is in a segment file (.log), an index (.index, .timeindex, .txnindex),
a producer snapshot (.snapshot), a checkpoint, leader-epoch-checkpoint,
partition.metadata, meta.properties or .kafka_cleanshutdown file, in oncelog.manifest,
oncelog.journal, oncelog.rescue or oncelog.tail, in all files of a partition's
directory, or in a whole log directory. Segments are shown with what journal and
tail hold of them, as they are once recovery has written it; rows "held" say what.

Nothing is written, no lock is taken: directories in use and directories that a
crash left are shown as they are. Zeros and a cut-off batch at the end of a file
are reported as its tail; bytes that are no batch, and checksums that do not
hold, as damage with file and position.

` + exitCodesHelp,
		Example: `  # every batch of a segment, and what is in its index
  oncelog dump orders-0/00000000000000000000.log
  oncelog dump orders-0/00000000000000000000.index

  # every record of a partition, and whether its transaction was committed
  oncelog dump --records /var/lib/kafka/data/orders-0

  # the transaction log, decoded, as JSON
  oncelog dump --records -o json /var/lib/kafka/data/__transaction_state-7 |
      jq -c 'select(.kind == "record") | [.offset, .key_decoded, .value_decoded]'

  # everything below a log directory
  oncelog dump -o json /var/lib/kafka/data`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(cmd, errors.New("dump needs the path of a file or directory"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if d.decoder, d.auto, err = decoderOfName(decoder); err != nil {
				return usageError(cmd, err)
			}
			if d.out, err = newOutput(cmd.OutOrStdout(), format); err != nil {
				return usageError(cmd, err)
			}
			d.stderr = cmd.ErrOrStderr()
			d.progress = newProgress(d.stderr)
			return d.run(args)
		},
	}
	cmd.Flags().BoolVarP(&d.records, "records", "r", false, "show the records of each batch")
	cmd.Flags().StringVarP(&format, "output", "o", formatText, "format: text (tables) or json (one object a line)")
	cmd.Flags().StringVar(&decoder, "decoder", decoderAuto,
		"meaning of keys and values: auto (by the name of the topic), none, transactions (__transaction_state) or offsets (__consumer_offsets)")
	return cmd
}

// dumper is one run of dump.
type dumper struct {
	fs       vfs.FS
	out      *output
	stderr   io.Writer
	progress *progress
	records  bool
	decoder  recordDecoder // of the current partition, if auto
	auto     bool

	decided    *decisions // of the current partition; nil if not known
	lastStable int64      // of decided
	memory     memory

	damaged bool // damage was shown
	blind   bool // something could not be looked at
}

// run dumps all paths, whatever happens to one of them.
func (d *dumper) run(paths []string) error {
	for _, path := range paths {
		if err := d.path(path); err != nil {
			if errors.Is(err, errOutput) {
				break
			}
			d.complain(err)
		}
	}
	d.progress.done()
	if err := d.out.flush(); err != nil {
		return &exitError{code: exitBlind, err: fmt.Errorf("write the output: %w", err)}
	}
	switch {
	case d.damaged:
		return &exitError{code: exitDamaged}
	case d.blind:
		return &exitError{code: exitBlind}
	}
	return nil
}

// errOutput stops a dump whose output nobody takes any more.
var errOutput = errors.New("the output takes no more")

// complain tells about something that could not be looked at, behind what was
// shown before it, and goes on.
func (d *dumper) complain(err error) {
	d.blind = true
	d.progress.done()
	d.out.flush() // its error is met again at the end of run
	fmt.Fprintf(d.stderr, "oncelog: %v\n", err)
}

// lookError is the error of a path that cannot be read, with what to do.
type lookError struct {
	path   string
	advice string
	err    error
}

func (e *lookError) Error() string { return e.path + ": " + e.advice }
func (e *lookError) Unwrap() error { return e.err }

// cannotLook says what to do about a path that cannot be read.
func cannotLook(path string, err error) error {
	e := &lookError{path: path, err: err}
	cause := err
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		cause = p.Err // the path is said already
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.advice = "no such file or directory; check the path"
	case errors.Is(err, fs.ErrPermission):
		e.advice = "no permission; run as the user that Kafka runs as, or on a copy"
	default:
		e.advice = cause.Error()
	}
	return e
}

// tail shows a torn or zero tail of a file, which is no damage.
func (d *dumper) tail(kind string, pos, size int64, reason string) {
	d.out.begin("tail")
	d.out.string("tail", kind)
	d.out.int("pos", pos)
	d.out.int("bytes", size)
	d.out.string("reason", reason)
	d.out.end()
}

// What is damaged, in the output.
const (
	damageFraming  = "framing"  // no batch stands there
	damageChecksum = "checksum" // its checksum does not hold
	damageBatch    = "batch"    // its header is impossible
	damageRecords  = "records"  // its records cannot be read
	damageIndex    = "index"    // an entry is impossible, or out of order
	damageSnapshot = "snapshot"
	damageMemory   = "memory" // a file of ours is not what it should be
)

// damage shows bytes that are not what they should be.
func (d *dumper) damage(what string, pos, size int64, reason string) {
	d.damaged = true
	d.out.begin("damage")
	d.out.string("damage", what)
	d.out.int("pos", pos)
	d.out.int("bytes", size)
	d.out.string("reason", reason)
	d.out.end()
}

// summary ends what is shown of a file of entries.
func (d *dumper) summary(entries int, size int64) {
	d.out.begin("summary")
	d.out.int("entries", int64(entries))
	d.out.int("bytes", size)
	d.out.end()
}
