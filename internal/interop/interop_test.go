//go:build interop

package interop

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/internal/topic"
)

// story is one run: the same directory handed from Kafka to the engine and
// back, with a copy at each stage, so that what went wrong can be looked at.
type story struct {
	k       *kafka
	command command
	state   string // file of Produce and Continue
	total   tally
	allowed *differencesAllowed

	first, second, third, fourth string // folders of brokers
	told                         *truth // what the broker said last
}

func TestInterop(t *testing.T) {
	work := theKafka.work
	s := &story{
		k:       &theKafka,
		state:   filepath.Join(work, "state.json"),
		first:   filepath.Join(work, "first"),
		second:  filepath.Join(work, "second"),
		third:   filepath.Join(work, "third"),
		fourth:  filepath.Join(work, "fourth"),
		command: buildCommand(t, work),
		allowed: readAllowed(t),
	}
	steps := []struct {
		name string
		run  func(t *testing.T) *tally
	}{
		{"Kafka writes", s.kafkaWrites},
		{"the judge sees damage", func(t *testing.T) *tally { return testJudge(t, s.k, filepath.Join(s.first, "data")) }},
		{"the engine reads", func(t *testing.T) *tally { return s.engineReads(t, s.first) }},
		{"the engine appends", s.engineAppends},
		{"Kafka goes on", s.kafkaGoesOn},
		{"the engine reads what both wrote", func(t *testing.T) *tally { return s.engineReads(t, s.second) }},
		{"the engine is killed", s.engineKilled},
		{"Kafka goes on after the kill", s.kafkaGoesOnAgain},
		{"Kafka is killed", s.kafkaKilled},
	}
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) {
			c := step.run(t)
			c.print(t, step.name)
			s.total.merge(c)
		}) {
			t.FailNow() // the next steps build on this one
		}
	}
	s.allowed.check(t)
	s.total.print(t, "compared in all")
}

// kafkaWrites fills a new directory with Kafka's clients.
func (s *story) kafkaWrites(t *testing.T) *tally {
	b := s.k.start(t, s.first, eagerCleaner)
	produced := decode[map[string]int](t, b.run(t, "Produce", "1", s.state))
	s.told = b.tell(t, "first")
	b.stop(t)
	c := new(tally)
	c.add("records produced by Kafka's clients", produced["produced"])
	c.add("partitions told of", len(s.told.partitions))
	return c
}

// engineReads opens a copy of a directory that a broker stopped on and
// compares everything with what that broker told; first without writing.
func (s *story) engineReads(t *testing.T, from string) *tally {
	work := t.TempDir()
	copyBroker(t, from, work)
	data := filepath.Join(work, "data")
	before := fingerprint(t, data)
	o := options()
	o.ReadOnly = true
	store := open(t, data, o)
	c := compareStore(t, store, data, s.told, s.allowed)
	closeStore(t, store)
	if after := fingerprint(t, data); after != before {
		t.Errorf("opened for reading only, the directory changed from\n%s to\n%s", before, after)
	}
	store = open(t, data, options())
	c.merge(compareStore(t, store, data, s.told, s.allowed))
	closeStore(t, store)
	c.merge(s.k.wantSound(t, data))
	s.command.run(t, "verify", data)
	return c
}

// engineAppends appends in every way to the topics that Kafka created.
func (s *story) engineAppends(t *testing.T) *tally {
	copyBroker(t, s.first, s.second)
	data := filepath.Join(s.second, "data")
	store := open(t, data, options())
	w := &writer{t: t, store: store, model: newModel(s.told), c: new(tally)}
	w.appendAll(s.state)
	known := knownProducers(t, store, w.model)
	closeStore(t, store)
	w.c.merge(s.k.wantSound(t, data))
	s.command.run(t, "verify", data)

	b := s.k.start(t, s.second, idleCleaner)
	told := b.tell(t, "second")
	b.stop(t)
	w.c.merge(compareModel(t, told, w.model))
	w.c.merge(compareProducers(t, told, known))
	w.c.merge(compareCoordinators(t, told, s.told))
	s.told = told
	return w.c
}

// kafkaGoesOn has Kafka's clients and the raw producers go on where the engine
// stopped.
func (s *story) kafkaGoesOn(t *testing.T) *tally { return s.goOn(t, s.second, "second-continued", "2") }

func (s *story) goOn(t *testing.T, dir, name, seed string) *tally {
	b := s.k.start(t, dir, idleCleaner)
	done := decode[map[string]int](t, b.run(t, "Continue", seed, s.state))
	told := b.tell(t, name)
	b.stop(t)
	c := compareGrown(t, told, s.told)
	c.add("duplicates that Kafka answers", done["duplicates"])
	c.add("batches of raw producers that Kafka refuses", done["refused"])
	c.add("batches of raw producers that Kafka takes", done["continued"])
	if seed == "2" {
		c.add("transactions ended by Kafka that were open under the engine", done["ended"])
	}
	c.merge(s.k.wantSound(t, filepath.Join(dir, "data")))
	s.told = told
	return c
}

// engineKilled kills the engine in the middle of appending, recovers the
// directory with the command, ends what was open and gives it to Kafka.
func (s *story) engineKilled(t *testing.T) *tally {
	copyBroker(t, s.second, s.third)
	data := filepath.Join(s.third, "data")
	m := newModel(s.told)
	a := killWhileAppending(t, data, m)
	if _, err := os.Stat(filepath.Join(data, ".kafka_cleanshutdown")); err == nil {
		t.Error("the directory of a killed engine has the mark of a clean stop")
	}
	s.command.run(t, "verify", data)
	s.command.run(t, "recover", data)

	store := open(t, data, options())
	c := a.settle(t, store, m)
	known := knownProducers(t, store, m)
	closeStore(t, store)
	c.merge(s.k.wantSound(t, data))
	s.command.run(t, "verify", data)

	b := s.k.start(t, s.third, idleCleaner)
	told := b.tell(t, "third")
	b.stop(t)
	c.merge(compareModel(t, told, m))
	c.merge(compareProducers(t, told, known))
	c.merge(compareCoordinators(t, told, s.told))
	s.told = told
	return c
}

func (s *story) kafkaGoesOnAgain(t *testing.T) *tally {
	return s.goOn(t, s.third, "third-continued", "3")
}

// kafkaKilled kills a broker that has just told the truth. The engine recovers
// the directory, with nothing lost, and gives it back.
func (s *story) kafkaKilled(t *testing.T) *tally {
	copyBroker(t, s.third, s.fourth)
	data := filepath.Join(s.fourth, "data")
	b := s.k.start(t, s.fourth, idleCleaner)
	b.run(t, "Continue", "4", s.state)
	s.told = b.tell(t, "fourth")
	s.k.script(t, "broker.sh", "kill", s.fourth)
	s.command.run(t, "verify", data)

	store := open(t, data, options())
	c := compareStore(t, store, data, s.told, s.allowed)
	m, known := newModel(s.told), make(map[topic.Partition][]producerTruth)
	for tp, p := range s.told.partitions {
		known[tp] = p.Producers
	}
	closeStore(t, store)
	c.merge(s.k.wantSound(t, data))
	s.command.run(t, "verify", data)

	b = s.k.start(t, s.fourth, idleCleaner)
	told := b.tell(t, "fourth-recovered")
	b.stop(t)
	c.merge(compareModel(t, told, m))
	c.merge(compareProducers(t, told, known))
	c.merge(compareCoordinators(t, told, s.told))
	return c
}

func knownProducers(t *testing.T, s *oncelog.Store, m *model) map[topic.Partition][]producerTruth {
	t.Helper()
	known := make(map[topic.Partition][]producerTruth)
	for tp := range m.partitions {
		l, err := s.Partition(tp)
		if err != nil {
			t.Fatal(err)
		}
		known[tp] = producersOf(l)
	}
	return known
}
