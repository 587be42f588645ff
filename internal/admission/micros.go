package admission

import "time"

// second is as many [Micros] as are in a second.
const second = 1e6

// Micros is an instant, in microseconds since the Unix epoch. It is the unit of the
// stores: Redis tells its time in it, and until the year 2255 a double holds it exactly,
// which is all that a Lua script has.
type Micros int64

// MicrosOf is the instant t, rounded down.
func MicrosOf(t time.Time) Micros { return Micros(t.UnixMicro()) }

// Time is the instant as a time, in UTC.
func (m Micros) Time() time.Time { return time.UnixMicro(int64(m)).UTC() }

// Never is the wait for what time alone does not bring, and for what takes longer than a
// Duration can say.
const Never = time.Duration(1<<63 - 1)

// duration is a number of microseconds as a Duration, or Never.
func (m Micros) duration() time.Duration {
	if m > Micros(Never/time.Microsecond) {
		return Never
	}
	return time.Duration(m) * time.Microsecond
}
