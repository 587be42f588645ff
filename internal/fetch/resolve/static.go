package resolve

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Static is an answer that the user has set: the addresses of a host, whatever name servers say.
type Static struct {
	Host  string       // a name or an address in lower case, or "*" for every host
	Port  uint16       // port of the connections that it is for; zero means every port
	Addrs []netip.Addr // the preferred first; must not be empty
}

func (s *Static) matches(host string, port uint16) bool {
	return (s.Host == "*" || s.Host == host) && (s.Port == 0 || s.Port == port)
}

const every = "*"

// ParseStatic parses curl's HOST:PORT:ADDR[,ADDR...], with "*" for any host or port. The error tells the user what to
// write.
func ParseStatic(s string) (Static, error) {
	host, rest, ok := cutHost(s)
	port, list, more := strings.Cut(rest, ":")
	if !ok || !more || host == "" || strings.ContainsAny(host, " /@") {
		return Static{}, fmt.Errorf("%q is not complete; give HOST:PORT:ADDRESS, as in example.com:443:192.0.2.7", s)
	}
	st := Static{Host: strings.TrimSuffix(strings.ToLower(host), ".")}
	if port != every {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return Static{}, fmt.Errorf("%q has the port %q; give 1 to 65535, or * for every port", s, port)
		}
		st.Port = uint16(n)
	}
	for item := range strings.SplitSeq(list, ",") {
		a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(item), "["), "]"))
		if err != nil {
			return Static{}, fmt.Errorf("%q has the address %q; give IP addresses, separated by commas", s, item)
		}
		if len(st.Addrs) == mostAddresses {
			return Static{}, fmt.Errorf("%q has more than %d addresses; leave some out", s, mostAddresses)
		}
		st.Addrs = append(st.Addrs, a.Unmap())
	}
	return st, nil
}

// cutHost cuts off the host, which may be an IPv6 address in brackets.
func cutHost(s string) (host, rest string, ok bool) {
	if inner, found := strings.CutPrefix(s, "["); found {
		return strings.Cut(inner, "]:")
	}
	return strings.Cut(s, ":")
}
