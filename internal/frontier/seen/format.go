package seen

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A run, all numbers little-endian:
//
//	header   4096 bytes: magic, version, key check, after, last, count, zeros, checksum
//	blocks   4096 bytes each: 511 fingerprints ascending, zeros, checksum
//	index    8 bytes per block: its first fingerprint
//	filter   8 bytes per word
//	checksum 4 bytes, of index and filter
//
// The length of each part follows from the count. The checksums of blocks and of the end
// start from that of the header, and those of blocks from their number too, so that a block
// of another run or from another place in this one is as wrong as one with a flipped bit.
const (
	magic   = "TLseen\r\n" // of which a transfer as text would spoil the end
	version = 1

	// blockSize is the page of nearly every file system and of the page cache.
	blockSize = 4096
	sumSize   = 4
	perBlock  = (blockSize - sumSize) / 8
)

// header says what is in a run.
type header struct {
	check uint64 // stands for the fingerprint key
	span
	count int64 // fingerprints
}

// keyCheck tells one fingerprint key from another without telling the key.
func keyCheck(key uint64) uint64 {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64([]byte("treadlight seen index "), key))
	return binary.LittleEndian.Uint64(sum[:])
}

// checksum continues seed over p.
func checksum(seed uint32, p []byte) uint32 {
	return crc32.Update(seed, crc32.MakeTable(crc32.Castagnoli), p)
}

func (h header) blocks() int64 { return (h.count + perBlock - 1) / perBlock }

// inBlock is the number of fingerprints in the i-th block.
func (h header) inBlock(i int64) int { return int(min(perBlock, h.count-i*perBlock)) }

// tailSize is the length of what follows the blocks.
func (h header) tailSize() int64 { return 8*(h.blocks()+bloomWords(h.count)) + sumSize }

// size is the length of the file.
func (h header) size() int64 { return blockSize*(1+h.blocks()) + h.tailSize() }

// encode returns the block of the header.
func (h header) encode() []byte {
	b := make([]byte, 0, blockSize)
	b = append(b, magic...)
	for _, v := range []uint64{version, h.check, uint64(h.after), uint64(h.last), uint64(h.count)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = append(b, make([]byte, blockSize-sumSize-len(b))...)
	return binary.LittleEndian.AppendUint32(b, checksum(0, b))
}

// decodeHeader reads the block of a header from a file of a given length. Whatever it
// accepts has a sensible count, so that nobody reserves memory for a lie.
func decodeHeader(b []byte, size int64) (header, error) {
	if !bytes.HasPrefix(b, []byte(magic)) {
		return header{}, fmt.Errorf("%w: no run", ErrDamaged)
	}
	if binary.LittleEndian.Uint32(b[blockSize-sumSize:]) != checksum(0, b[:blockSize-sumSize]) {
		return header{}, fmt.Errorf("%w: header", ErrDamaged)
	}
	field := func(i int) uint64 { return binary.LittleEndian.Uint64(b[len(magic)+8*i:]) }
	if v := field(0); v != version {
		return header{}, fmt.Errorf("%w: version %d, want %d", ErrDamaged, v, version)
	}
	h := header{field(1), span{int64(field(2)), int64(field(3))}, int64(field(4))}
	if h.after < 0 || h.last <= h.after || h.count < 1 || h.count > size/8 || h.size() != size {
		return header{}, fmt.Errorf("%w: %d bytes do not hold %d fingerprints", ErrDamaged, size, h.count)
	}
	return h, nil
}
