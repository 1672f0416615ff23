package getid

import (
	"context"
	"errors"
	"math"
	"time"
)

const (
	// waitersMax bounds the calls that wait for one object.
	waitersMax = 10_000
	// takeMax bounds the values of one Take.
	takeMax = 1_000_000
	// timeoutMax is the longest time-out of a call.
	timeoutMax = 24 * time.Hour
	// helpAfter is the time after which a waiting call starts a job that the background goroutine has not taken up.
	helpAfter = 50 * time.Millisecond

	backoffFirst = 10 * time.Millisecond
	backoffLast  = time.Second
	loadingWait  = 200 * time.Millisecond

	never = math.MinInt64 / 2
)

// Source is what sequences, workers and the fakes of package getidtest have in common.
type Source interface {
	// Next returns the next value.
	Next(ctx context.Context) (int64, error)
	// Take fills dst with values, ascending.
	Take(ctx context.Context, dst []int64) error
	// TryNext returns the next value if that needs no wait.
	TryNext() (int64, bool)
	// WarmUp waits until n values are in memory, or the worker id is leased.
	WarmUp(ctx context.Context, n int) error
}

// remedy is how an error reply is met.
type remedy int

const (
	nextAddress remedy = iota
	nextAddressLoading
	sameAddress
	refused
)

func remedyOf(e *serverError) remedy {
	switch e.code() {
	case "LOADING":
		return nextAddressLoading
	case "MISCONF":
		return nextAddress
	case "TRYAGAIN", "BUSY", "EXHAUSTED":
		return sameAddress
	}
	if e.isFull() {
		return nextAddress
	}
	return refused
}

// waiter is a call that waits for values. All but done is guarded by the client's lock.
type waiter struct {
	dst        []int64 // nil if the call waits for something else than values
	filled     int
	need       int   // values that a call of WarmUp needs in memory
	sent, wall int64 // when the request of the first value was sent
	isWarmUp   bool
	isSent     bool // a request has been sent since the call began to wait
	isDone     bool
	err        error
	done       chan struct{}
}

func (w *waiter) missing() int { return len(w.dst) - w.filled }

func (w *waiter) finish(err error) {
	w.isDone, w.err = true, err
	close(w.done)
}

// object is the state of a sequence or worker. All methods run under the client's lock.
type object interface {
	common() *source
	// begin returns the request that is needed now, or nil.
	begin(serial uint64) []string
	// apply takes the reply to the last request. An error closes the connection.
	apply(reply any) error
	// refuse takes an error reply. It returns whether the error was expected and is dealt with.
	refuse(e *serverError) bool
	// retryDelay returns the wait before the next try. With canLose the server may have done what was requested.
	retryDelay(delay time.Duration, canLose bool) time.Duration
	// isNeeded reports whether a failed job is tried again although no call waits.
	isNeeded() bool
	// arm prepares the fast path of calls.
	arm()
	// forget drops the segments, or the lease.
	forget()
	// stop does the same for good. It returns the requests that release the lease.
	stop() [][]string
	failureEvent() EventKind
}

// source is the part of an object that all kinds have.
type source struct {
	core        *core
	self        object
	subject     string // such as "sequence 'orders'"
	name        string
	usage       error // wrong arguments, which all calls return
	options     any
	waiters     []*waiter
	due         int64
	position    int // in core.queue, or -1
	hasJob      bool
	retryAt     int64
	tried       map[int]bool // addresses that failed, and whether by LOADING
	backoff     time.Duration
	failures    int64
	lastFailure string
}

func makeSource(c *core, kind, name string) source {
	return source{core: c, subject: kind + " '" + name + "'", name: name, position: -1, backoff: backoffFirst,
		tried: map[int]bool{}, retryAt: never}
}

func (s *source) common() *source { return s }

func (s *source) isAsking() bool { return s.position >= 0 || s.hasJob }

// check returns the error of a call that cannot be served.
func (s *source) check() error {
	if s.usage != nil {
		return s.usage
	}
	if s.core.isClosed {
		return closedError()
	}
	return nil
}

// limitOf returns the time-out of a call.
func (s *source) limitOf(ctx context.Context) time.Duration {
	limit := s.core.timeout
	if deadline, has := ctx.Deadline(); has {
		limit = time.Until(deadline)
	}
	if limit > timeoutMax {
		return timeoutMax
	}
	return limit
}

func (s *source) enqueue(w *waiter) error {
	if len(s.waiters) >= waitersMax {
		text := "10,000 calls wait for " + s.subject + " already: wait for some of them to return"
		return &Error{Kind: ErrUnavailable, text: text}
	}
	w.done = make(chan struct{})
	s.waiters = append(s.waiters, w)
	return nil
}

// wait waits for a queued call. A job that the background goroutine does not take up gets a goroutine of its own.
func (s *source) wait(ctx context.Context, w *waiter, began time.Time, limit time.Duration) error {
	s.core.kick()
	left := func() time.Duration { return limit - time.Since(began) }
	timer := time.NewTimer(shorter(helpAfter, left()))
	defer timer.Stop()
	for {
		select {
		case <-w.done:
			return w.err
		case <-ctx.Done():
			return s.leave(ctx, w, limit)
		case <-timer.C:
			if left() <= 0 {
				return s.leave(ctx, w, limit)
			}
			s.core.help(s.self)
			timer.Reset(shorter(8*helpAfter, left()))
		}
	}
}

func shorter(a, b time.Duration) time.Duration {
	if a < b {
		return a
	}
	return b
}

// leave ends a call without its values, unless they came meanwhile.
func (s *source) leave(ctx context.Context, w *waiter, limit time.Duration) error {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if w.isDone {
		return w.err
	}
	for i, found := range s.waiters {
		if found == w {
			s.waiters = append(s.waiters[:i], s.waiters[i+1:]...)
			break
		}
	}
	if q, isSequence := s.self.(*sequence); isSequence {
		q.lose(w)
	}
	failure := s.lastFailure
	if failure == "" {
		failure = s.core.address().String() + " has not replied yet"
	}
	return timeoutError(ctx, s.subject, limit, failure)
}

func (s *source) finishAll(err error) {
	for _, w := range s.waiters {
		w.finish(err)
	}
	s.waiters = nil
}

func (s *source) succeeded() {
	s.tried = map[int]bool{}
	s.backoff = backoffFirst
	s.retryAt = never
	s.lastFailure = ""
}

// failed notes a failed job, and schedules the next try if it is needed.
func (s *source) failed(r remedy, reason, code string, canLose bool) {
	s.failures++
	s.lastFailure = reason
	s.core.event(Event{Kind: s.self.failureEvent(), Object: s.name, Reason: reason})
	delay := time.Duration(0)
	if r == refused {
		s.finishAll(&Error{Kind: ErrRefused, Code: code, text: s.subject + ": " + reason})
		delay = s.self.retryDelay(0, false)
	} else {
		delay = s.self.retryDelay(s.tableDelay(r), canLose)
	}
	s.retryAt = s.core.clock.Mono() + int64(delay)
	if len(s.waiters) > 0 || s.self.isNeeded() {
		s.core.schedule(s.self, s.retryAt)
	}
}

// tableDelay chooses the address of the next try, and returns the wait before it.
func (s *source) tableDelay(r remedy) time.Duration {
	if r == sameAddress {
		s.tried = map[int]bool{}
		return s.backOff()
	}
	c := s.core
	count := len(c.target.addresses)
	s.tried[c.index] = r == nextAddressLoading
	for step := 1; step < count; step++ {
		index := (c.index + step) % count
		if _, isTried := s.tried[index]; !isTried {
			c.useAddress(index)
			return 0
		}
	}
	areLoading := true
	for _, isLoading := range s.tried {
		areLoading = areLoading && isLoading
	}
	s.tried = map[int]bool{}
	c.useAddress((c.index + 1) % count)
	if areLoading {
		return loadingWait
	}
	return s.backOff()
}

func (s *source) backOff() time.Duration {
	delay := s.backoff
	s.backoff = shorter(2*delay, backoffLast)
	return delay
}

var errNotSerializable = errors.New("getid: objects of a client cannot be serialised: make a client in each process")
