package outcome_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

type classed struct{ error }

func (classed) Class() outcome.Class { return outcome.Decode }

func TestOf(t *testing.T) {
	dial := func(err error) error {
		return &url.Error{Op: "Get", URL: "http://a.test/", Err: &net.OpError{Op: "dial", Err: err}}
	}
	for _, tc := range []struct {
		status              int
		err                 error
		want                outcome.Class
		transient, overload bool
	}{
		{0, nil, outcome.Unknown, false, false},
		{200, nil, outcome.OK, false, false},
		{206, nil, outcome.OK, false, false},
		{300, nil, outcome.OK, false, false},
		{301, nil, outcome.Redirect, false, false},
		{304, nil, outcome.OK, false, false},
		{308, nil, outcome.Redirect, false, false},
		{400, nil, outcome.ClientError, false, false},
		{401, nil, outcome.ClientError, false, false},
		{403, nil, outcome.ClientError, false, false},
		{404, nil, outcome.ClientError, false, false},
		{408, nil, outcome.Timeout, true, true},
		{429, nil, outcome.Throttled, true, true},
		{420, nil, outcome.Throttled, true, true},
		{500, nil, outcome.ServerError, false, true},
		{502, nil, outcome.Gateway, true, true},
		{503, nil, outcome.Unavailable, true, true},
		{504, nil, outcome.Gateway, true, true},
		{599, nil, outcome.ServerError, false, true},
		{99, nil, outcome.ServerError, false, true},
		{101, nil, outcome.Protocol, false, false},
		{600, nil, outcome.ServerError, false, true},
		{999, nil, outcome.ServerError, false, true},
		{200, io.ErrUnexpectedEOF, outcome.Network, true, true},
		{0, context.Canceled, outcome.Canceled, false, false},
		{0, fmt.Errorf("get: %w", context.DeadlineExceeded), outcome.Timeout, true, true},
		{0, os.ErrDeadlineExceeded, outcome.Timeout, true, true},
		{0, dial(syscall.ECONNREFUSED), outcome.Network, true, true},
		{0, dial(syscall.ECONNRESET), outcome.Network, true, true},
		{0, syscall.EPIPE, outcome.Network, true, true},
		{0, io.EOF, outcome.Network, true, true},
		{0, dial(&net.DNSError{IsNotFound: true}), outcome.NoHost, false, false},
		{0, dial(&net.DNSError{IsTemporary: true}), outcome.DNS, true, true},
		{0, dial(&net.DNSError{IsTimeout: true}), outcome.DNS, true, true},
		{0, &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, outcome.TLS, false, false},
		{0, tls.RecordHeaderError{Msg: "not TLS"}, outcome.TLS, false, false},
		{0, errors.New("malformed HTTP response"), outcome.Protocol, false, false},
		{200, fmt.Errorf("body: %w", classed{io.ErrUnexpectedEOF}), outcome.Decode, false, false},
	} {
		got := outcome.Of(tc.status, tc.err)
		if got != tc.want {
			t.Errorf("Of(%d, %v) = %v, want %v", tc.status, tc.err, got, tc.want)
		}
		if got.Transient() != tc.transient || got.Overload() != tc.overload {
			t.Errorf("Of(%d, %v): transient %v, overload %v, want %v, %v",
				tc.status, tc.err, got.Transient(), got.Overload(), tc.transient, tc.overload)
		}
	}
}

func TestNamesReadBack(t *testing.T) {
	for c := outcome.Unknown; c <= outcome.Canceled; c++ {
		text, err := json.Marshal(c)
		require.NoError(t, err)
		var back outcome.Class
		if err := json.Unmarshal(text, &back); err != nil || back != c {
			t.Errorf("%s reads back as %v, %v, want %v", text, back, err, c)
		}
	}
	var c outcome.Class
	if err := c.UnmarshalText([]byte("fine")); err == nil {
		t.Error("UnmarshalText(fine) = nil, want an error")
	}
}

// TestResetStream: over HTTP/2 a host that gives up resets the stream, and that is a broken connection like any.
func TestResetStream(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	res, err := srv.Client().Get(srv.URL)
	if err == nil {
		res.Body.Close()
		t.Fatal("the stream was not reset")
	}
	if class := outcome.Of(0, err); class != outcome.Network {
		t.Errorf("%v is %v, want network", err, class)
	}
}

// What was declined is no failure of the host: neither another try nor a breaker hears of it.
func TestDeclined(t *testing.T) {
	for c := outcome.Unknown; c <= outcome.Canceled; c++ {
		want := c == outcome.TooLarge || c == outcome.Bomb || c == outcome.Filtered
		require.EqualValues(t, want, c.Declined())
		if want && (c.Transient() || c.Overload()) {
			t.Errorf("%v is held against the host", c)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for status := range 1000 {
		want := outcome.WaitsNone
		switch {
		case status == 420, status == 429, status/100 == 5:
			want = outcome.WaitsHost
		case status == 403:
			want = outcome.WaitsIfBlock
		case status == 301, status == 302, status == 303, status == 307, status == 308:
			want = outcome.WaitsTarget
		}
		require.EqualValues(t, want, outcome.RetryAfter(status))
	}
}
