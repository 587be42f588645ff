package redis

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// itemVersion is the first byte of an item. A program that finds another version cannot read what follows.
const itemVersion = 1

// How the URL of an item is stored.
const (
	wholeURL  = iota // as it is, in full
	httpHost         // without http:// and the host under which it is stored
	httpsHost        // without https:// and the host
)

// encode returns an item as it is stored: without rank and ID, without the usual scheme and host, and without the part
// of the referrer that equals the beginning of the URL.
func encode(host string, it *frontier.Item) string {
	url, form := it.URL.String(), byte(wholeURL)
	rest := url
	if s, ok := strings.CutPrefix(url, "http://"+host); ok {
		rest, form = s, httpHost
	} else if s, ok := strings.CutPrefix(url, "https://"+host); ok {
		rest, form = s, httpsHost
	}
	flags := form | byte(it.Kind)<<2
	if it.Seed {
		flags |= 1 << 4
	}
	if it.Request != "" {
		flags |= 1 << 5
	}
	common := 0
	for common < len(url) && common < len(it.Referrer) && url[common] == it.Referrer[common] {
		common++
	}
	b := make([]byte, 0, 32+len(rest)+len(it.Referrer)-common+len(it.Request))
	b = append(b, itemVersion, flags, it.Hops, it.Attempt, it.URLFailures)
	b = binary.AppendUvarint(b, uint64(it.Returns))
	b = binary.AppendUvarint(b, uint64(uint32(it.Depth)))
	b = binary.AppendVarint(b, it.Queued.UnixMilli())
	b = binary.AppendVarint(b, it.FoundOn)
	b = binary.AppendUvarint(b, uint64(len(rest)))
	b = append(b, rest...)
	if it.Request != "" {
		b = binary.AppendUvarint(b, uint64(len(it.Request)))
		b = append(b, it.Request...)
	}
	b = binary.AppendUvarint(b, uint64(common))
	b = append(b, it.Referrer[common:]...)
	return string(b)
}

// errItem means that no program version known to this one can have stored the item.
var errItem = errors.New("the item of a URL cannot be read: it is of another version of this program, or damaged")

func decode(host, text string) (it frontier.Item, err error) {
	if len(text) < 5 || text[0] != itemVersion || text[1] > 0x3f {
		return it, errItem
	}
	flags := text[1]
	it.Hops, it.Attempt, it.URLFailures = text[2], text[3], text[4]
	it.Kind, it.Seed = frontier.Kind(flags>>2&3), flags&(1<<4) != 0
	in := reader{rest: text[5:]}
	it.Returns = uint16(in.uint(math.MaxUint16))
	it.Depth = int32(in.uint(math.MaxInt32))
	it.Queued = time.UnixMilli(in.int())
	it.FoundOn = in.int()
	url := in.text(in.uint(math.MaxInt32))
	switch flags & 3 {
	case httpHost:
		url = "http://" + host + url
	case httpsHost:
		url = "https://" + host + url
	}
	if flags&(1<<5) != 0 {
		it.Request = in.text(in.uint(math.MaxInt32))
	}
	common := in.uint(math.MaxInt32)
	if in.bad || common > uint64(len(url)) || flags&3 > httpsHost || it.Kind == frontier.Robots || it.Kind > frontier.Sitemap {
		return it, errItem
	}
	it.Referrer = url[:common] + in.rest
	if it.URL, err = canonical.Parse(url); err != nil || it.URL.String() != url {
		return it, errItem
	}
	return it, nil
}

type reader struct {
	rest string
	bad  bool // a field was missing or out of range
}

func (r *reader) uint(most uint64) uint64 {
	v, n := binary.Uvarint([]byte(r.rest[:min(len(r.rest), binary.MaxVarintLen64)]))
	if n <= 0 || v > most {
		r.bad, r.rest = true, ""
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) int() int64 {
	v := r.uint(math.MaxUint64)
	return int64(v>>1) ^ -int64(v&1)
}

func (r *reader) text(n uint64) string {
	if n > uint64(len(r.rest)) {
		r.bad, r.rest = true, ""
		return ""
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

// itemOf reads an item that load has handed out, of a job with that many partitions: the rank, the number within the
// partition, and the encoded item.
func itemOf(partitions int, h *held, line string) (frontier.Item, error) {
	rank, rest, ok1 := strings.Cut(line, " ")
	seq, body, ok2 := strings.Cut(rest, " ")
	r, err1 := strconv.ParseInt(rank, 10, 32)
	n, err2 := strconv.ParseInt(seq, 10, 64)
	if !ok1 || !ok2 || err1 != nil || err2 != nil {
		return frontier.Item{}, errItem
	}
	it, err := decode(h.name, body)
	it.Rank, it.ID = int32(r), n*int64(partitions)+int64(h.part.index)
	return it, err
}
