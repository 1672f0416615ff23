package getid

import (
	"container/heap"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"getid.local/client/internal/clock"
)

const (
	// objectsMax bounds the objects of a client.
	objectsMax = 10_000
	// eventsMax bounds the events that wait for the callback; the oldest are dropped.
	eventsMax = 1000

	closeTimeout = 2 * time.Second
	idle         = time.Hour
)

// EventKind is what happened.
type EventKind string

// Kinds of events.
const (
	Connected    EventKind = "connected"
	Disconnected EventKind = "disconnected"
	FetchFailed  EventKind = "fetch_failed"
	Leased       EventKind = "leased"
	Renewed      EventKind = "renewed"
	RenewFailed  EventKind = "renew_failed"
	LeaseLost    EventKind = "lease_lost"
	Released     EventKind = "released"
	ClockAhead   EventKind = "clock"
)

// Event is what the function of WithOnEvent gets.
type Event struct {
	// Kind is what happened.
	Kind EventKind
	// Address is the address of the server.
	Address string
	// Object is the name of the sequence or pool, if the event has one.
	Object string
	// Reason is the reason of a failure.
	Reason string
	// Difference is, of ClockAhead, how far the clock is past the end of the lease.
	Difference time.Duration
}

// Option is an option of New.
type Option func(*settings)

type settings struct {
	timeout time.Duration
	onEvent func(Event)
	tls     *tls.Config
	clock   *clock.Clock
}

// WithTimeout sets the time-out of calls whose context has no deadline: 0 to 24 h, by default 5 s.
func WithTimeout(timeout time.Duration) Option { return func(s *settings) { s.timeout = timeout } }

// WithOnEvent sets a function that gets one event after another, on the background goroutine and without a lock. It may
// call the client, but not wait for it. At most 1,000 events wait for it; then the oldest are dropped.
func WithOnEvent(onEvent func(Event)) Option { return func(s *settings) { s.onEvent = onEvent } }

// WithTLSConfig sets the TLS settings of a getids URL, by default the system's trust store.
func WithTLSConfig(config *tls.Config) Option { return func(s *settings) { s.tls = config } }

func init() {
	clock.Option = func(k *clock.Clock) any { return Option(func(s *settings) { s.clock = k }) }
}

// Client is a client of getid servers, with one connection and one background goroutine, which begins at the first use
// of an object and ends at Close. Make one for a process. All methods may be called by several goroutines; a copy is
// the same client.
type Client struct {
	noSerialization
	core *core
	keep *anchor
	made *made
}

// made has the objects of a client.
type made struct {
	mu        sync.Mutex
	sequences map[string]*Sequence
	workers   map[string]*Worker
}

// anchor is what the client and its objects refer to, and the background goroutine does not. The goroutine ends when
// the program has forgotten all of them.
type anchor struct{ core *core }

// noSerialization makes encoding/json, encoding/gob and encoding/xml fail.
type noSerialization struct{}

// MarshalText fails: objects of a client cannot be serialised.
func (noSerialization) MarshalText() ([]byte, error) { return nil, errNotSerializable }

// MarshalBinary fails: objects of a client cannot be serialised.
func (noSerialization) MarshalBinary() ([]byte, error) { return nil, errNotSerializable }

// New returns a client, without connecting. The URL is
//
//	getid://[user:password@]host[:port][,host[:port]...][?order=given]
//
// or getids:// for TLS, or getid+unix:///path/of/socket. An empty one is the environment variable GETID_URL, else
// getid://127.0.0.1:7890.
func New(url string, options ...Option) (*Client, error) {
	s := settings{timeout: 5 * time.Second}
	for _, set := range options {
		set(&s)
	}
	target, err := parseURL(url)
	if err == nil {
		err = checkDuration("WithTimeout", s.timeout, 0, timeoutMax)
	}
	if err == nil && s.tls != nil && !target.isTLS {
		err = usageError("WithTLSConfig is given, so the url must begin with 'getids://'")
	}
	if err != nil {
		return nil, err
	}
	if s.clock == nil {
		s.clock = clock.New()
	}
	c := &core{settings: s, target: target, wake: make(chan struct{}, 1), finished: make(chan struct{})}
	s.clock.Watch(c.signal)
	keep := &anchor{c}
	runtime.SetFinalizer(keep, func(keep *anchor) { keep.core.abandon() })
	return &Client{core: c, keep: keep, made: &made{sequences: map[string]*Sequence{}, workers: map[string]*Worker{}}}, nil
}

// String returns the addresses of the client.
func (c *Client) String() string {
	var names []string
	for _, address := range c.core.target.addresses {
		names = append(names, address.String())
	}
	return "getid client of " + strings.Join(names, ", ")
}

// Sequence returns the local supply of a sequence, the same object each time. If an argument is wrong, or the name
// exists with other options, its Err and all of its calls return an ErrUsage.
func (c *Client) Sequence(name string, options ...SequenceOption) *Sequence {
	o := sequenceOptions{prefetchMax: prefetchDefault, hold: holdMax}
	for _, set := range options {
		set(&o)
	}
	c.made.mu.Lock()
	defer c.made.mu.Unlock()
	state := newSequence(c.core, name, o)
	found := c.made.sequences[name]
	state.usage = c.register(state, o.check(name), found != nil && found.state.options != o, found != nil)
	if state.usage == nil && found != nil {
		return found
	}
	s := &Sequence{state: state, keep: c.keep}
	if state.usage == nil {
		c.made.sequences[name] = s
	}
	return s
}

// Worker returns the generator of IDs with a worker id of a pool, the same object each time. One pool serves one
// layout. If an argument is wrong, or the pool exists with other options, its Err and all of its calls return an
// ErrUsage.
func (c *Client) Worker(pool string, layout Layout, options ...WorkerOption) *Worker {
	o := workerOptions{layout: layout.normalized()}
	for _, set := range options {
		set(&o)
	}
	wrong := o.check(pool)
	if wrong != nil {
		o.layout = Twitter
	}
	c.made.mu.Lock()
	defer c.made.mu.Unlock()
	state := newWorker(c.core, pool, o)
	found := c.made.workers[pool]
	state.usage = c.register(state, wrong, found != nil && found.state.options != o, found != nil)
	if state.usage == nil && found != nil {
		return found
	}
	w := &Worker{state: state, keep: c.keep}
	if state.usage == nil {
		c.made.workers[pool] = w
	}
	return w
}

// register adds a new object to the core, or returns why its calls fail.
func (c *Client) register(o object, wrong error, isOther, isKnown bool) error {
	c.core.mu.Lock()
	defer c.core.mu.Unlock()
	switch subject := o.common().subject; {
	case wrong != nil:
		return wrong
	case isOther:
		return usageError("%s exists with other options: use the same ones, or another client", subject)
	case !isKnown && len(c.core.objects) >= objectsMax:
		return usageError("the client has %d objects, which is the most: use them again", objectsMax)
	case !isKnown:
		c.core.objects = append(c.core.objects, o)
	}
	return nil
}

// Discard drops all values and leases, and closes the connection, without a message to the server: before a snapshot of
// the process. Calls that wait continue to wait.
func (c *Client) Discard() {
	defer runtime.KeepAlive(c.keep)
	c.core.mu.Lock()
	for _, o := range c.core.objects {
		o.forget()
		o.arm()
		if len(o.common().waiters) == 0 {
			c.core.unschedule(o)
		}
	}
	connection := c.core.dropConnection()
	c.core.mu.Unlock()
	c.core.end(connection)
}

// Close ends all calls and releases the leases, within the deadline of ctx, or 2 s. It returns an ErrUnavailable if not
// all leases were released; these are free when they end. A second call waits for the first one, and returns the same.
// Afterwards every call is ErrClosed.
func (c *Client) Close(ctx context.Context) error {
	defer runtime.KeepAlive(c.keep)
	if _, has := ctx.Deadline(); !has {
		limited, cancel := context.WithTimeout(ctx, closeTimeout)
		defer cancel()
		ctx = limited
	}
	return c.core.close(ctx)
}

// core is the state of a client. One lock guards it, and no input, output, wait or callback runs while it is held. Each
// job has the generation of its begin; Close and Discard raise it, so that a late reply changes nothing.
type core struct {
	settings
	target   *target
	wake     chan struct{}
	finished chan struct{} // closed when Close has released the leases
	closeErr error

	mu         sync.Mutex
	objects    []object
	queue      dueQueue
	index      int // of the address in use
	generation uint64
	serial     uint64 // of the connection
	connection *connection
	retired    []*connection
	events     []Event
	isBusy     bool // a goroutine uses the connection
	isStarted  bool
	isClosed   bool
	isFinished bool
}

func (c *core) address() address { return c.target.addresses[c.index] }

func (c *core) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *core) close(ctx context.Context) error {
	c.mu.Lock()
	if c.isClosed {
		c.mu.Unlock()
		select {
		case <-c.finished:
			return c.closeErr
		case <-ctx.Done():
			return &Error{Kind: ErrUnavailable, text: "the first Close has not ended yet", cause: ctx.Err()}
		}
	}
	requests := c.stop()
	connection := c.dropConnection()
	c.mu.Unlock()
	c.end(connection)
	if left := c.release(ctx, requests); left > 0 {
		text := fmt.Sprintf("%d of %d leases were not released: they are free when they end", left, len(requests))
		c.closeErr = &Error{Kind: ErrUnavailable, text: text, cause: ctx.Err()}
	}
	c.mu.Lock()
	c.isFinished = true
	c.mu.Unlock()
	close(c.finished)
	c.signal()
	return c.closeErr
}

// abandon ends a client that the program has forgotten. It sends nothing.
func (c *core) abandon() {
	c.mu.Lock()
	c.stop()
	c.isFinished = true
	connection := c.dropConnection()
	c.mu.Unlock()
	c.end(connection)
}

func (c *core) stop() []releaseRequest {
	c.isClosed = true
	var requests []releaseRequest
	for _, o := range c.objects {
		for _, request := range o.stop() {
			requests = append(requests, releaseRequest{o.common().name, request})
		}
		o.common().finishAll(closedError())
		o.arm()
	}
	return requests
}

func (c *core) dropConnection() *connection {
	c.generation++
	connection := c.connection
	c.connection = nil
	return connection
}

func (c *core) end(connection *connection) {
	if connection != nil {
		connection.abort()
	}
	c.signal()
}

// Schedule. All but kick and help run under the lock.

// schedule sets when the next job of an object begins.
func (c *core) schedule(o object, due int64) {
	s := o.common()
	s.due = due
	if s.position >= 0 {
		heap.Fix(&c.queue, s.position)
		return
	}
	heap.Push(&c.queue, o)
}

func (c *core) unschedule(o object) {
	if s := o.common(); s.position >= 0 {
		heap.Remove(&c.queue, s.position)
	}
}

func (c *core) useAddress(index int) {
	if index != c.index {
		c.index = index
		c.retire()
	}
}

func (c *core) retire() {
	if c.connection != nil {
		c.retired = append(c.retired, c.connection)
		c.connection = nil
	}
}

func (c *core) event(e Event) {
	if c.onEvent == nil {
		return
	}
	e.Address = c.address().String()
	if len(c.events) >= eventsMax {
		c.events = c.events[1:]
	}
	c.events = append(c.events, e)
}

// takeDue returns an object whose job begins now, or how long there is none. With only it takes no other object.
func (c *core) takeDue(only object) (object, time.Duration) {
	if c.isBusy || c.isClosed || len(c.queue) == 0 {
		return nil, idle
	}
	found := c.queue[0]
	if only != nil {
		found = only
	}
	s := found.common()
	if s.position < 0 {
		return nil, idle
	}
	if delay := time.Duration(s.due - c.clock.Mono()); delay > 0 {
		return nil, shorter(delay, idle)
	}
	c.unschedule(found)
	s.hasJob, c.isBusy = true, true
	return found, 0
}

// kick wakes the background goroutine, and starts it at first use.
func (c *core) kick() {
	c.mu.Lock()
	isNew := !c.isStarted && !c.isClosed
	c.isStarted = c.isStarted || isNew
	c.mu.Unlock()
	if isNew {
		go c.work()
	}
	c.signal()
}

// help runs the job of an object in a goroutine of its own if it is due and not taken up.
func (c *core) help(o object) {
	c.mu.Lock()
	found, _ := c.takeDue(o)
	generation := c.generation
	c.mu.Unlock()
	if found != nil {
		go c.run(found, generation)
	}
}

// Jobs.

// work is the background goroutine.
func (c *core) work() {
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for {
		c.deliverEvents()
		c.mu.Lock()
		if c.isFinished && len(c.events) == 0 {
			c.mu.Unlock()
			return
		}
		found, delay := c.takeDue(nil)
		generation := c.generation
		c.mu.Unlock()
		if found != nil {
			c.run(found, generation)
			continue
		}
		if !timer.Stop() {
			select {
			case <-timer.C:
			default:
			}
		}
		timer.Reset(delay)
		select {
		case <-c.wake:
		case <-timer.C:
		}
	}
}

func (c *core) deliverEvents() {
	if c.onEvent == nil {
		return
	}
	for {
		c.mu.Lock()
		if len(c.events) == 0 {
			c.mu.Unlock()
			return
		}
		e := c.events[0]
		c.events = c.events[1:]
		c.mu.Unlock()
		c.deliver(e)
	}
}

func (c *core) deliver(e Event) {
	defer func() { _ = recover() }() // a mistake of the callback does not end the program
	c.onEvent(e)
}

// run sends the request of an object and applies its reply. Its goroutine alone uses the connection.
func (c *core) run(o object, generation uint64) {
	reply, err := c.request(o, generation)
	c.mu.Lock()
	s := o.common()
	s.hasJob, c.isBusy = false, false
	if generation == c.generation {
		c.apply(o, reply, err)
	} else if len(s.waiters) > 0 && !c.isClosed {
		c.schedule(o, c.clock.Mono())
	}
	o.arm()
	retired := c.retired
	c.retired = nil
	c.mu.Unlock()
	for _, connection := range retired {
		connection.abort()
	}
	c.signal()
}

// errNoRequest reports a job that found nothing to request.
var errNoRequest = errors.New("nothing is needed")

func (c *core) request(o object, generation uint64) (any, error) {
	connection, err := c.connected(generation)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	var request []string
	if generation == c.generation {
		request = o.begin(c.serial)
		o.arm()
	}
	c.mu.Unlock()
	if request == nil {
		return nil, errNoRequest
	}
	return connection.request(request, replyTimeout)
}

func (c *core) connected(generation uint64) (*connection, error) {
	c.mu.Lock()
	if generation != c.generation {
		c.mu.Unlock()
		return nil, errNoRequest
	}
	if c.connection != nil && c.connection.isOpen() {
		defer c.mu.Unlock()
		return c.connection, nil
	}
	c.retire()
	made := &connection{address: c.address(), target: c.target, tls: c.tls}
	c.connection = made
	c.mu.Unlock()
	if err := made.connect(context.Background()); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if generation == c.generation {
		c.serial++
		c.event(Event{Kind: Connected})
	}
	return made, nil
}

// apply takes the end of a job.
func (c *core) apply(o object, reply any, err error) {
	s := o.common()
	refusal, isError := reply.(*serverError)
	if err == nil && !isError {
		if err = o.apply(reply); err != nil {
			err = &lostError{fmt.Sprintf("%v: %v", c.address(), err), false}
		}
	}
	var lost *lostError
	var login *loginError
	switch {
	case errors.As(err, &lost):
		if !lost.isConnect {
			c.event(Event{Kind: Disconnected, Reason: lost.reason})
		}
		c.retire()
		s.failed(nextAddress, lost.reason, "", !lost.isConnect)
	case errors.As(err, &login):
		c.retire()
		c.applyError(s, login.serverError, false)
	case isError && !o.refuse(refusal):
		c.applyError(s, refusal, true)
	}
}

func (c *core) applyError(s *source, e *serverError, canLose bool) {
	reason := fmt.Sprintf("%v: %s", c.address(), e.text)
	s.failed(remedyOf(e), reason, e.code(), canLose && e.code() != "LOADING")
}

// Release.

// releaseRequest is a RELEASE of a lease of a pool.
type releaseRequest struct {
	pool    string
	request []string
}

// release sends requests on new connections, and returns how many leases are left.
func (c *core) release(ctx context.Context, left []releaseRequest) int {
	c.mu.Lock()
	first := c.index
	c.mu.Unlock()
	for step := range c.target.addresses {
		if len(left) == 0 || ctx.Err() != nil {
			break
		}
		index := (first + step) % len(c.target.addresses)
		left = c.releaseAt(ctx, c.target.addresses[index], left)
	}
	return len(left)
}

func (c *core) releaseAt(ctx context.Context, place address, requests []releaseRequest) (left []releaseRequest) {
	made := &connection{address: place, target: c.target, tls: c.tls}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		<-ctx.Done()
		made.abort()
	}()
	if made.connect(ctx) != nil {
		return requests
	}
	for _, one := range requests {
		if !c.sendRelease(made, one.request) {
			left = append(left, one)
			continue
		}
		c.mu.Lock()
		c.event(Event{Kind: Released, Object: one.pool})
		c.mu.Unlock()
	}
	return left
}

// sendRelease returns whether the lease is over.
func (c *core) sendRelease(to *connection, request []string) bool {
	reply, err := to.request(request, replyTimeout)
	if err != nil {
		return false
	}
	if refusal, isError := reply.(*serverError); isError {
		if refusal.code() == "ERR" && len(request) > releaseLength {
			// LAST is too far ahead for the server. Without it the id is free at the end of the lease.
			return c.sendRelease(to, request[:releaseLength])
		}
		return isOver(refusal.code())
	}
	return reply == status("OK")
}

// dueQueue is a heap of objects by the time at which their next job begins.
type dueQueue []object

func (q dueQueue) Len() int           { return len(q) }
func (q dueQueue) Less(i, j int) bool { return q[i].common().due < q[j].common().due }
func (q dueQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].common().position, q[j].common().position = i, j
}

// Push implements heap.Interface.
func (q *dueQueue) Push(x any) {
	x.(object).common().position = len(*q)
	*q = append(*q, x.(object))
}

// Pop implements heap.Interface.
func (q *dueQueue) Pop() any {
	last := len(*q) - 1
	found := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	found.common().position = -1
	return found
}
