package watch

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/fetch/post"
)

const (
	hookTimeout   = 30 * time.Second // of a request to a webhook
	maxRetryAfter = 24 * time.Hour   // longest Retry-After that is obeyed

	leastSecret, mostSecret = 24, 64 // bytes, as Standard Webhooks requires
)

// Secret decodes the key that signs requests to a webhook, from a file, or else from text. If both are empty it returns
// nil, and nothing is signed. Its errors do not contain the secret.
func Secret(text, file string) ([]byte, error) {
	from := "CRAWL_WEBHOOK_SECRET"
	if file != "" {
		from = "--webhook-secret " + file
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, cli.IOf("open --webhook-secret: %w", err)
		}
		text = string(data)
	}
	text = strings.TrimSpace(text)
	if text == "" && file == "" {
		return nil, nil
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whsec_"))
	if err != nil || len(key) < leastSecret || len(key) > mostSecret {
		return nil, cli.Usagef("%s: give %d to %d bytes in base64, such as openssl rand -base64 32 makes", from, leastSecret, mostSecret)
	}
	return key, nil
}

// Webhook adds an output that posts each change to a URL until the response is 2xx. The requests are signed if secret
// is not nil.
func (w *Watch) Webhook(to string, secret []byte) error {
	client := http.Client{Timeout: hookTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	send := func(ctx context.Context, list []numbered) (int, error) {
		for i, c := range list {
			if err := deliver(ctx, &client, to, secret, c.text); err != nil {
				return i, err
			}
		}
		return len(list), nil
	}
	return w.attach(&output{name: fmt.Sprintf("webhook:%x", sha256.Sum256([]byte(to))), send: send})
}

// deliver sends a change. If it is sent again, the request has the same Webhook-Id and body, but another time and
// signature.
func deliver(ctx context.Context, client *http.Client, to string, secret []byte, change string) error {
	var c Change
	if err := json.Unmarshal([]byte(change), &c); err != nil {
		return err
	}
	at := fmt.Sprint(clock.System().Now().Unix())
	h := http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"Treadlight/" + cli.Version()}, "Webhook-Id": {c.ID}, "Webhook-Timestamp": {at},
	}
	if secret != nil {
		h.Set("Webhook-Signature", sign(secret, c.ID, at, change))
	}
	_, err := post.Send(ctx, client, to, h, []byte(change), maxRetryAfter)
	return err
}

// sign returns a signature by Standard Webhooks: https://www.standardwebhooks.com.
func sign(secret []byte, id, at, body string) string {
	mac := hmac.New(sha256.New, secret)
	_, _ = io.WriteString(mac, id+"."+at+"."+body) // a hash never fails
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
