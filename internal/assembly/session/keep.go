package session

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
)

// A session is kept as base64 of salt, nonce and the cookies, encrypted with AES-256-GCM by a key that is derived from
// what is filled in: whoever knows that could log in anyway, and whoever has the state alone learns nothing.
const (
	saltSize   = 16
	rounds     = 200_000
	keySize    = 32
	savedStart = "v1:"
	formLine   = "# form "
)

var errSaved = errors.New("it was kept for another login, or was changed")

func (s *Session) seal(salt []byte) (cipher.AEAD, error) {
	secrets := slices.Sorted(slices.Values(s.cfg.Login.secrets))
	key, err := pbkdf2.Key(sha256.New, strings.Join(append(secrets, s.cfg.Login.Page.String()), "\x00"), salt, rounds, keySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// save returns the session as text. Only the goroutine that logs in may call it.
func (s *Session) save() (string, error) {
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt) // never fails
	aead, err := s.seal(salt)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce)
	text := []byte(formLine + s.names[0] + "\t" + s.names[1] + "\n") // a comment for the reader of cookies
	text = append(text, s.cfg.Cookies.Export(s.cfg.Login.Page.Hostname())...)
	sealed := aead.Seal(append(salt, nonce...), nonce, text, []byte(savedStart))
	return savedStart + base64.StdEncoding.EncodeToString(sealed), nil
}

func (s *Session) restore(text string) error {
	rest, ok := strings.CutPrefix(text, savedStart)
	data, err := base64.StdEncoding.DecodeString(rest)
	if !ok || err != nil || len(data) < saltSize {
		return errSaved
	}
	aead, err := s.seal(data[:saltSize])
	if err != nil {
		return err
	}
	data = data[saltSize:]
	if len(data) < aead.NonceSize() {
		return errSaved
	}
	lines, err := aead.Open(nil, data[:aead.NonceSize()], data[aead.NonceSize():], []byte(savedStart))
	if err != nil {
		return errSaved
	}
	form, _, _ := strings.Cut(strings.TrimPrefix(string(lines), formLine), "\n")
	s.names[0], s.names[1], _ = strings.Cut(form, "\t")
	return s.cfg.Cookies.Load(strings.NewReader(string(lines)))
}
