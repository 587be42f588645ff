// Package admission is the server's side of politeness: it decides whether a request may
// come in, and tells the client when to come again.
//
// A [Plan] is a limit: a token bucket, or a fixed or sliding window. A key is who is
// counted: an address, a user, an API key. A [Repository] keeps what each key has used of
// each plan, in memory, in SQLite or in Redis (the packages below this one), and decides
// over several plans at once: all are charged, or none. What it decides by is written
// once, here, as pure functions of values and a time: [TokenBucket] and [Window], and
// [TakeAll] over several of them. Repositories call these, or do the same operations in
// the same order elsewhere, as the Redis script does; the suite in admissiontest compares
// every step.
//
// A [Registry] has the plans by name, and replaces them while requests are under way. An
// [Admitter] is the service over both: it looks plans up, sets the store a deadline, and
// when the store does not answer lets in ([FailOpen]) or keeps out ([FailClosed]), or asks
// a local repository that was kept warm, and says so in the [Reason] of the [Result]. That is
// counted, and logged once per change.
//
// On top of it stand rules, key functions, the net/http middleware and the guard of
// single functions.
//
// # Time
//
// The unit is the microsecond, of the repository's one clock: [Micros]. A clock that goes
// back a little stops the refill until it has caught up and grants nothing twice. A state
// from further in the future than its plan reaches was written by a wrong clock; it
// counts as none, because it would block its key for as long as the clock was off.
//
// # Changing
//
// Plans, rules and exclusions that come together, from a file or an administrator, are in
// force together: a request is judged by the limits of the moment it came, to its end, and
// never by rules of one set and plans of another. What is refused, or cannot be saved, was
// never in force.
//
// # Forgetting
//
// Every store forgets a key once nothing it used counts any more ([Plan.Period]): then a
// new state decides the same, so that forgetting is no way round a limit. Windows begin
// at multiples of their length since the Unix epoch for the same reason, and so that
// several processes agree.
//
// Everything here is safe for concurrent use unless it says otherwise, and nothing starts
// a goroutine.
package admission
