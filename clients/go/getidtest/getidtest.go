// Package getidtest has a fake client for unit tests of programs: the methods of getid.Client, without a server.
//
//	orders := getidtest.New(1).Sequence("orders")
//	value, err := orders.Next(ctx)                     // 1
//
// A sequence counts up from the start. A worker makes IDs with the worker id 0, from a time that begins one second
// after the layout's epoch. Both are a getid.Source, as the real objects are.
package getidtest

import (
	"context"
	"fmt"
	"sync"

	getid "getid.local/client"
)

const (
	takeMax = 1_000_000
	startMs = 1000
)

// Client is a fake of getid.Client. All methods may be called by several goroutines.
type Client struct {
	mu       sync.Mutex
	start    int64
	objects  map[string]*Source
	err      error
	isClosed bool
}

// New returns a fake client whose sequences count up from start.
func New(start int64) *Client {
	return &Client{start: start, objects: map[string]*Source{}}
}

// Source is a fake sequence or worker, a getid.Source.
type Source struct {
	client *Client
	values int64
	draw   func() int64
}

var _ getid.Source = (*Source)(nil)

// Sequence returns the fake sequence of a name, the same object each time. The options have no effect.
func (c *Client) Sequence(name string, _ ...getid.SequenceOption) *Source {
	return c.object("sequence "+name, func() func() int64 {
		next := c.start - 1
		return func() int64 {
			next++
			return next
		}
	})
}

// Worker returns the fake worker of a pool, the same object each time. The options have no effect.
func (c *Client) Worker(pool string, layout getid.Layout, _ ...getid.WorkerOption) *Source {
	return c.object("worker "+pool, func() func() int64 { return drawOf(layout) })
}

// drawOf returns a function that makes IDs of a layout.
func drawOf(layout getid.Layout) func() int64 {
	unitMs := layout.UnitMs
	if unitMs == 0 {
		unitMs = 1
	}
	unit, counter := (startMs+unitMs-1)/unitMs, int64(-1)
	return func() int64 {
		if counter++; counter>>layout.Counter > 0 {
			unit, counter = unit+1, 0
		}
		id := unit << (layout.Worker + layout.Counter)
		if layout.CounterFirst {
			return id | counter<<layout.Worker
		}
		return id | counter
	}
}

func (c *Client) object(key string, newDraw func() func() int64) *Source {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.objects[key]
	if found == nil {
		found = &Source{client: c, draw: newDraw()}
		c.objects[key] = found
	}
	return found
}

// Fail makes the next call of an object return err, such as getid.ErrUnavailable.
func (c *Client) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// Discard does nothing.
func (c *Client) Discard() {}

// Close makes all later calls return getid.ErrClosed.
func (c *Client) Close(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isClosed = true
	return nil
}

func (c *Client) takeError() error {
	if c.isClosed {
		return getid.ErrClosed
	}
	err := c.err
	c.err = nil
	return err
}

// Next returns the next value.
func (s *Source) Next(ctx context.Context) (int64, error) {
	var dst [1]int64
	err := s.Take(ctx, dst[:])
	return dst[0], err
}

// Take fills dst with 1 to 1,000,000 values, ascending.
func (s *Source) Take(_ context.Context, dst []int64) error {
	if err := checkCount(len(dst)); err != nil {
		return err
	}
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	if err := s.client.takeError(); err != nil {
		return err
	}
	for i := range dst {
		dst[i] = s.draw()
	}
	s.values += int64(len(dst))
	return nil
}

// TryNext returns the next value. It has none where Next would fail.
func (s *Source) TryNext() (int64, bool) {
	value, err := s.Next(context.Background())
	return value, err == nil
}

// WarmUp does nothing, but returns the error that Fail has set.
func (s *Source) WarmUp(_ context.Context, n int) error {
	if err := checkCount(n); err != nil {
		return err
	}
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	return s.client.takeError()
}

// Err returns nil: a fake does not check its options.
func (s *Source) Err() error { return nil }

// Values returns the number of values that calls returned.
func (s *Source) Values() int64 {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	return s.values
}

func checkCount(n int) error {
	if n < 1 || n > takeMax {
		return fmt.Errorf("%w: number of values is %d, must be 1 to %d", getid.ErrUsage, n, takeMax)
	}
	return nil
}
