package merge

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"time"

	"github.com/cespare/xxhash/v2"
)

// class is how much a record says, the most last.
type class uint8

// The classes.
const (
	unasked    class = iota // no request was made, as robots.txt refuses it
	unanswered              // there was no answer
	troubled                // an answer that is trouble of the server, or is not whole
	answered                // a whole answer that says something of the page: it is not there
	success                 // the page
)

// fact is what of a record decides whether it counts.
type fact struct {
	url     string
	status  int
	at      time.Time
	attempt int
	failed  bool // it has an error
}

// class is how much the record says.
func (f *fact) class() class {
	switch s := f.status; {
	case s == 0 && f.attempt == 0:
		return unasked
	case s == 0:
		return unanswered
	case f.failed || s >= 500 || s == 408 || s == 425 || s == 429:
		return troubled
	case s >= 400:
		return answered
	}
	return success
}

// entry is what is sorted of a record.
type entry struct {
	key     [2]uint64 // of its URL
	rank    uint64    // class, then tries
	at      int64     // Unix milliseconds
	sum     uint64    // of the line
	ordinal uint64    // among all records of all files
}

// entrySize is the size of an entry on disk, in bytes; in memory it is the same.
const entrySize = 48

// keys are two hash functions that nobody outside knows, so that nobody can make URLs that
// hash alike.
type keys [2]maphash.Seed

func newKeys() keys { return keys{maphash.MakeSeed(), maphash.MakeSeed()} }

func (k *keys) of(url string) [2]uint64 {
	return [2]uint64{maphash.String(k[0], url), maphash.String(k[1], url)}
}

// entry notes a record. The hash of its line must be the same in every run, as it decides
// which of two records counts that are alike in all else.
func (k *keys) entry(f *fact, line []byte, ordinal uint64, newest bool) entry {
	e := entry{key: k.of(f.url), sum: xxhash.Sum64(line), ordinal: ordinal, rank: uint64(min(max(f.attempt, 0), 1<<32-1))}
	if !f.at.IsZero() {
		e.at = f.at.UnixMilli()
	}
	if !newest {
		e.rank |= uint64(f.class()) << 32
	}
	return e
}

// compare orders entries by their URLs, and for one URL the one that counts first.
func compare(a, b entry) int {
	return cmp.Or(
		cmp.Compare(a.key[0], b.key[0]), cmp.Compare(a.key[1], b.key[1]),
		cmp.Compare(b.rank>>32, a.rank>>32), cmp.Compare(b.at, a.at), cmp.Compare(b.rank, a.rank),
		cmp.Compare(b.sum, a.sum), cmp.Compare(a.ordinal, b.ordinal),
	)
}

func (e *entry) append(dst []byte) []byte {
	for _, w := range [...]uint64{e.key[0], e.key[1], e.rank, uint64(e.at), e.sum, e.ordinal} {
		dst = binary.LittleEndian.AppendUint64(dst, w)
	}
	return dst
}

func (e *entry) decode(b []byte) {
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	*e = entry{[2]uint64{word(0), word(1)}, word(2), int64(word(3)), word(4), word(5)}
}
