package fleet

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/fetch/access"
)

// mostSecret bounds the size of a file with a password.
const mostSecret = 4 << 10

// Client returns the options for the Redis of the settings: its URL, with the variables that lookup knows replaced, and
// the contents of its password file and of its file of certificate authorities. No error contains the password.
func Client(f *config.Fleet, lookup func(string) (string, bool)) (rueidis.ClientOption, error) {
	o, err := parseURL(f.Redis, lookup)
	if err != nil {
		return o, fmt.Errorf("fleet.redis: %w", err)
	}
	if f.PasswordFile != "" {
		secret, err := access.ReadFile(f.PasswordFile, mostSecret)
		if err != nil {
			return o, fmt.Errorf("fleet.password_file: %w", err)
		}
		o.Password = strings.TrimRight(string(secret), "\r\n")
		if o.Password == "" || strings.ContainsAny(o.Password, "\r\n") {
			return o, fmt.Errorf("fleet.password_file: %s is not one line with a password", f.PasswordFile)
		}
	}
	if f.CAFile == "" {
		return o, nil
	}
	if o.TLSConfig == nil {
		return o, fmt.Errorf("fleet.ca_file: %s is for TLS, and fleet.redis has none: let it begin with rediss://", f.CAFile)
	}
	roots, err := access.ReadAuthorities(f.CAFile)
	if err != nil {
		return o, fmt.Errorf("fleet.ca_file: %w", err)
	}
	o.TLSConfig.RootCAs = roots
	if o.Sentinel.TLSConfig != nil {
		o.Sentinel.TLSConfig.RootCAs = roots
	}
	return o, nil
}

// parseURL reads fleet.redis, with the variables that lookup knows replaced. The value of a variable in the user or the
// password may contain any characters. In addition to the usual format, sentinel_username and sentinel_password are the
// credentials for the Sentinels of master_set.
func parseURL(text string, lookup func(string) (string, bool)) (rueidis.ClientOption, error) {
	who, rest := "", text
	if at := strings.LastIndexByte(text, '@'); at >= 0 && strings.Contains(text[:at], "://") {
		who, rest = text[:at], text[at:]
	}
	who, errWho := access.Expand(who, func(name string) (string, bool) {
		value, ok := lookup(name)
		return strings.ReplaceAll(url.QueryEscape(value), "+", "%20"), ok
	})
	rest, err := access.Expand(rest, lookup)
	if err = errors.Join(errWho, err); err != nil {
		return rueidis.ClientOption{}, err
	}
	o, err := rueidis.ParseURL(who + rest)
	if err != nil { // the text of err may contain the password
		return o, fmt.Errorf("%s is no URL of a Redis: give redis://HOST:PORT, rediss:// with TLS, or unix:///PATH", document.Quote(config.RedactRedis(text)))
	}
	if len(o.InitAddress) == 0 || strings.HasPrefix(o.InitAddress[0], ":") {
		return o, fmt.Errorf("%s names no host: give redis://HOST:PORT", document.Quote(config.RedactRedis(text)))
	}
	u, err := url.Parse(who + rest)
	if err != nil { // this cannot happen: rueidis has just parsed it
		return o, errors.New("is no URL")
	}
	if o.Sentinel.MasterSet != "" {
		o.Sentinel.Username, o.Sentinel.Password = u.Query().Get("sentinel_username"), u.Query().Get("sentinel_password")
		o.Sentinel.TLSConfig = o.TLSConfig.Clone()
	}
	if o.TLSConfig != nil && (o.Sentinel.MasterSet != "" || len(o.InitAddress) > 1) {
		o.TLSConfig.ServerName = "" // each server is verified by the name or address by which it is reached
		if o.Sentinel.TLSConfig != nil {
			o.Sentinel.TLSConfig.ServerName = ""
		}
	}
	return o, nil
}
