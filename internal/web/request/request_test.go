package request_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/request"
)

// What is stored of a request, in a queue and in a line of seeds, is the request again; what cannot be sent is refused.
func TestStored(t *testing.T) {
	u, err := canonical.Parse("http://a.test/x")
	require.NoError(t, err)
	for _, q := range []request.Request{
		{},
		{Method: "PUT"},
		{Body: []byte("a b\n\"c\"")},
		{Again: "again 2 3"},
		{Label: "l", Meta: map[string]string{"k": "v\nw"}},
		{Header: http.Header{"X-A": {"1", "2"}}, Outside: true},
	} {
		s, err := request.NewSeed(u, q)
		require.NoError(t, err)
		require.Equal(t, q, request.Decode(s.Stored))
		require.Equal(t, q.Method != "" || q.Body != nil || q.Again != "", request.Identity(s.Stored) != "", s.Stored)
		for _, points := range []int{0, -7} {
			s.Points = points
			require.NotContains(t, s.String(), "\n")
			back, err := request.ParseSeed(s.String())
			require.NoError(t, err)
			require.Equal(t, s, back)
		}
	}
	for want, q := range map[string]request.Request{
		"method":             {Method: http.MethodConnect},
		"client's own":       {Header: http.Header{"Host": {"b.test"}}},
		"none that can be":   {Header: http.Header{"X": {"a\nb"}}},
		"not UTF-8":          {Label: "\xff"},
		"one line":           {Again: "a\nb"},
		"label and meta":     {Label: strings.Repeat("x", request.MaxMeta+1)},
		"the request has mo": {Body: make([]byte, request.MaxRequest)},
	} {
		_, err := q.Encode()
		require.ErrorContains(t, err, want)
	}
	for _, stored := range []string{"x", "\n{", "\n{\"method\":\"CONNECT\"}"} {
		require.Zero(t, request.Decode(stored), stored)
	}
	for _, line := range []string{"", "no url", "http://a.test/ x \"\"", "http://a.test/ 1 '"} {
		_, err := request.ParseSeed(line)
		require.Error(t, err, line)
	}
}
