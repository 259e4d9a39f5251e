package fakeredis

import (
	"slices"
	"time"
)

// valueType is the type of a value, as TYPE tells it.
type valueType uint8

const (
	typeString valueType = iota
	typeHash
)

func (t valueType) String() string {
	if t == typeHash {
		return "hash"
	}
	return "string"
}

// entry is one key's value. Types beyond strings add a field each.
type entry struct {
	typ    valueType
	str    string
	expire int64 // Unix ms of the last moment at which the key exists; 0: it stays
}

// find returns the key's entry if it has not expired, and forgets it if it has. s.mu is held.
func (s *Server) find(db int, key []byte, now int64) (entry, bool) {
	e, ok := s.dbs[db][string(key)]
	if ok && e.expired(now) {
		delete(s.dbs[db], string(key))
		return entry{}, false
	}
	return e, ok
}

// expired follows Redis: a key still exists in the very millisecond that its expiry names.
func (e entry) expired(now int64) bool { return e.expire != 0 && now > e.expire }

// purge forgets the expired keys of a database, before they would be counted. s.mu is held.
func (s *Server) purge(db int, now int64) {
	for k, e := range s.dbs[db] {
		if e.expired(now) {
			delete(s.dbs[db], k)
		}
	}
}

// flush forgets all keys of all databases. s.mu is held.
func (s *Server) flush() {
	for i := range s.dbs {
		s.dbs[i] = make(map[string]entry)
	}
}

// DB is a direct look at one of the server's databases, past the network and all faults.
type DB struct {
	srv *Server
	n   int
}

// DB returns database n, 0 to 15. Another number panics.
func (s *Server) DB(n int) DB {
	_ = s.dbs[n]
	return DB{s, n}
}

// Get returns the string stored under key, and whether there is one.
func (d DB) Get(key string) (string, bool) {
	d.srv.mu.Lock()
	defer d.srv.mu.Unlock()
	e, ok := d.srv.find(d.n, []byte(key), d.srv.now())
	return e.str, ok
}

// Set stores a string for ttl, rounded up to a millisecond; 0 means for ever.
func (d DB) Set(key, value string, ttl time.Duration) {
	d.srv.mu.Lock()
	defer d.srv.mu.Unlock()
	e := entry{str: value}
	if ttl > 0 {
		e.expire = d.srv.now() + int64((ttl+time.Millisecond-1)/time.Millisecond)
	}
	d.srv.dbs[d.n][key] = e
}

// Del removes a key and reports whether it was there.
func (d DB) Del(key string) bool {
	d.srv.mu.Lock()
	defer d.srv.mu.Unlock()
	_, ok := d.srv.find(d.n, []byte(key), d.srv.now())
	delete(d.srv.dbs[d.n], key)
	return ok
}

// TTL returns how long the key will stay: 0 if for ever, and false if it does not exist.
func (d DB) TTL(key string) (time.Duration, bool) {
	d.srv.mu.Lock()
	defer d.srv.mu.Unlock()
	now := d.srv.now()
	e, ok := d.srv.find(d.n, []byte(key), now)
	if !ok || e.expire == 0 {
		return 0, ok
	}
	return time.Duration(e.expire-now) * time.Millisecond, true
}

// Keys returns the names of all keys, sorted.
func (d DB) Keys() []string {
	d.srv.mu.Lock()
	defer d.srv.mu.Unlock()
	d.srv.purge(d.n, d.srv.now())
	keys := make([]string, 0, len(d.srv.dbs[d.n]))
	for k := range d.srv.dbs[d.n] {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Get is DB(0).Get.
func (s *Server) Get(key string) (string, bool) { return s.DB(0).Get(key) }

// Set is DB(0).Set.
func (s *Server) Set(key, value string, ttl time.Duration) { s.DB(0).Set(key, value, ttl) }

// Del is DB(0).Del.
func (s *Server) Del(key string) bool { return s.DB(0).Del(key) }

// TTL is DB(0).TTL.
func (s *Server) TTL(key string) (time.Duration, bool) { return s.DB(0).TTL(key) }

// Keys is DB(0).Keys.
func (s *Server) Keys() []string { return s.DB(0).Keys() }

// FlushAll removes all keys of all databases.
func (s *Server) FlushAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flush()
}
