package classic

// Pinned is the limiter of a key of a [Keyed], held in its place: for those who come back
// to one key so often that finding it each time would cost more than the limiter, and for
// permits that are to be given back to the limiter they came from. The zero Pinned holds
// nothing.
type Pinned[K comparable] struct {
	// Limiter is the key's; nil in the zero Pinned. It may be one that keys share.
	Limiter Weighted

	from *Keyed[K]
	hash uint64
	key  K
}

// Pin finds or makes the limiter of a key, which is not forgotten until Unpin. Its errors
// are ErrTooManyKeys, ErrClosed and those of KeyedConfig.New.
func (k *Keyed[K]) Pin(key K) (Pinned[K], error) {
	hash := k.hash(key)
	l, err := k.pin(hash, key)
	if err != nil {
		return Pinned[K]{}, err
	}
	return Pinned[K]{l, k, hash, key}, nil
}

// Unpin lets the limiter go, which its Keyed then forgets when that makes no difference.
// It is called once for each Pin; of the zero Pinned it does nothing.
func (p Pinned[K]) Unpin() {
	if p.from != nil {
		p.from.unpin(p.hash, p.key, p.Limiter)
	}
}
