package binder

import "io"

// UseForTest is the current value and what ends its use.
func (l *Live[C]) UseForTest() (C, func(), error) {
	g, err := l.use()
	if err != nil {
		var none C
		return none, nil, err
	}
	return g.value, g.leave, nil
}

// CurrentForTest is the current value.
func (l *Live[C]) CurrentForTest() C { return l.current.Load().value }

var _ io.Closer = (*Live[io.Closer])(nil)
