package access

import (
	"crypto/x509"
	"fmt"
	"io"
	"os"
)

// ReadFile reads a file of at most the given number of bytes, for example one with secrets or certificates. Its errors
// name the file.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it is only read
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s is larger than %d KiB: is it the right file?", path, most>>10)
	}
	return data, err
}

// MaxPEM bounds a file of certificates, in bytes; the authorities of a system have 200 KiB.
const MaxPEM = 8 << 20

// ReadAuthorities returns the certificates of the system together with those of a PEM file. Its errors name the file.
func ReadAuthorities(path string) (*x509.CertPool, error) {
	data, err := ReadFile(path, MaxPEM)
	if err != nil {
		return nil, err
	}
	roots, err := x509.SystemCertPool()
	if err != nil { // the system has none
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s has no certificate: give a PEM file, which has lines of -----BEGIN CERTIFICATE-----", path)
	}
	return roots, nil
}
