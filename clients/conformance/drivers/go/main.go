// Driver of the Go package: the protocol is in the README of the conformance suite.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	getid "getid.local/client"
	"getid.local/client/internal/clock"
)

const (
	lineBytesMax = 16 << 20
	noWorkerID   = -1
)

type layout struct {
	Time         int   `json:"time"`
	Worker       int   `json:"worker"`
	Counter      int   `json:"counter"`
	UnitMs       int64 `json:"unit_ms"`
	EpochMs      int64 `json:"epoch_ms"`
	CounterFirst bool  `json:"counter_first"`
}

type command struct {
	ID          int64  `json:"id"`
	Do          string `json:"do"`
	Client      string `json:"client"`
	Object      string `json:"object"`
	URL         string `json:"url"`
	CA          string `json:"ca"`
	TimeoutMs   *int64 `json:"timeout_ms"`
	Name        string `json:"name"`
	PrefetchMax *int   `json:"prefetch_max"`
	HoldMs      *int64 `json:"hold_ms"`
	Fresh       bool   `json:"fresh"`
	Pool        string `json:"pool"`
	Layout      layout `json:"layout"`
	TTLSeconds  *int64 `json:"ttl_s"`
	N           int    `json:"n"`
	Threads     int    `json:"threads"`
	Values      int    `json:"values"`
	File        string `json:"file"`
	Take        int    `json:"take"`
	Calls       int    `json:"calls"`
	AfterMs     int64  `json:"after_ms"`
	WallMs      int64  `json:"wall_ms"`
	MonoMs      int64  `json:"mono_ms"`
}

// context returns the context of a call: with a deadline if the command has one.
func (c *command) context() (context.Context, context.CancelFunc) {
	if c.TimeoutMs == nil {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), time.Duration(*c.TimeoutMs)*time.Millisecond)
}

type object map[string]any

// source is a sequence or worker.
type source interface {
	getid.Source
	Err() error
}

// opened is a client, its clock, its events, and whether its Close has returned.
type opened struct {
	client   *getid.Client
	clock    *clock.Clock
	isClosed atomic.Bool
	mu       sync.Mutex
	events   []getid.Event
}

// drawing is the state of the draw of an object.
type drawing struct {
	isStopped         atomic.Bool
	mu                sync.Mutex
	drawn, afterClose int
	errors            map[string]int
}

// kept is an object, its client, and its draw.
type kept struct {
	source  source
	owner   *opened
	drawing *drawing
}

type driver struct {
	mu      sync.Mutex
	clients map[string]*opened
	objects map[string]*kept
	output  *bufio.Writer
}

func main() {
	d := &driver{clients: map[string]*opened{}, objects: map[string]*kept{}, output: bufio.NewWriter(os.Stdout)}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, lineBytesMax)
	for lines.Scan() {
		c := &command{}
		if err := json.Unmarshal(lines.Bytes(), c); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if c.Do == "exit" {
			d.answer(c, object{}, nil)
			return
		}
		var draws *drawing
		if c.Do == "draw" {
			draws = d.beginDraw(c)
		}
		go func() {
			ok, err := d.run(c, draws)
			d.answer(c, ok, err)
		}()
	}
}

func (d *driver) beginDraw(c *command) *drawing {
	draws := &drawing{errors: map[string]int{}}
	d.mu.Lock()
	defer d.mu.Unlock()
	if found := d.objects[c.Object]; found != nil {
		found.drawing = draws
	}
	return draws
}

func (d *driver) answer(c *command, ok object, err error) {
	line := object{"id": c.ID, "ok": ok}
	if err != nil {
		line = object{"id": c.ID, "error": nameOf(err), "message": err.Error()}
	} else if ok == nil {
		line["ok"] = object{}
	}
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.output.Write(append(text, '\n'))
	d.output.Flush()
}

func nameOf(err error) string {
	names := map[error]string{getid.ErrUnavailable: "Unavailable", getid.ErrRefused: "Refused",
		getid.ErrClock: "ClockError", getid.ErrClosed: "Closed", getid.ErrUsage: "Usage"}
	for kind, name := range names {
		if errors.Is(err, kind) {
			return name
		}
	}
	return fmt.Sprintf("%T", err)
}

func (d *driver) client(c *command) *opened {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clients[c.Client]
}

func (d *driver) object(c *command) *kept {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.objects[c.Object]
}

func (d *driver) run(c *command, draws *drawing) (object, error) {
	switch c.Do {
	case "open":
		return nil, d.open(c)
	case "sequence", "worker":
		return nil, d.keep(c)
	case "close":
		return d.close(c)
	case "discard":
		d.client(c).client.Discard()
		return nil, nil
	case "events":
		return d.client(c).takeEvents(), nil
	case "clock":
		d.client(c).clock.Shift(time.Duration(c.WallMs)*time.Millisecond, time.Duration(c.MonoMs)*time.Millisecond)
		time.Sleep(2 * time.Millisecond) // both clocks are compared once in a millisecond
		return nil, nil
	case "fork":
		return object{"unsupported": true}, nil
	case "counter":
		return object{"ns": timeCounter(c.Values)}, nil
	}
	found := d.object(c)
	if found == nil {
		return nil, fmt.Errorf("there is no object %q", c.Object)
	}
	if c.Do == "draw" {
		return found.draw(c, draws)
	}
	if c.Do == "stop" {
		d.mu.Lock()
		defer d.mu.Unlock()
		found.drawing.isStopped.Store(true)
		return nil, nil
	}
	return found.run(c)
}

func (d *driver) open(c *command) error {
	o := &opened{clock: clock.New()}
	options := []getid.Option{clock.Option(o.clock).(getid.Option), getid.WithOnEvent(o.note)}
	if c.TimeoutMs != nil {
		options = append(options, getid.WithTimeout(time.Duration(*c.TimeoutMs)*time.Millisecond))
	}
	if c.CA != "" {
		text, err := os.ReadFile(c.CA)
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return fmt.Errorf("%s has no certificate", c.CA)
		}
		options = append(options, getid.WithTLSConfig(&tls.Config{RootCAs: pool}))
	}
	client, err := getid.New(c.URL, options...)
	if err != nil {
		return err
	}
	o.client = client
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clients[c.Client] = o
	return nil
}

func (d *driver) keep(c *command) error {
	owner := d.client(c)
	var found source
	if c.Do == "sequence" {
		found = sequenceOf(owner.client, c)
	} else {
		found = workerOf(owner.client, c)
	}
	if err := found.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.objects[c.Object] = &kept{source: found, owner: owner}
	return nil
}

func sequenceOf(client *getid.Client, c *command) source {
	var options []getid.SequenceOption
	if c.PrefetchMax != nil {
		options = append(options, getid.WithPrefetchMax(*c.PrefetchMax))
	}
	if c.HoldMs != nil {
		options = append(options, getid.WithHold(time.Duration(*c.HoldMs)*time.Millisecond))
	}
	if c.Fresh {
		options = append(options, getid.WithFresh())
	}
	return client.Sequence(c.Name, options...)
}

func workerOf(client *getid.Client, c *command) source {
	var options []getid.WorkerOption
	if c.Name != "" {
		options = append(options, getid.WithName(c.Name))
	}
	if c.TTLSeconds != nil {
		options = append(options, getid.WithTTL(time.Duration(*c.TTLSeconds)*time.Second))
	}
	return client.Worker(c.Pool, getid.Layout(c.Layout), options...)
}

func (d *driver) close(c *command) (object, error) {
	owner := d.client(c)
	ctx, cancel := c.context()
	defer cancel()
	err := owner.client.Close(ctx)
	owner.isClosed.Store(true)
	return object{"released": err == nil}, nil
}

func (o *opened) note(e getid.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, e)
}

func (o *opened) takeEvents() object {
	o.mu.Lock()
	defer o.mu.Unlock()
	events := []object{}
	for _, e := range o.events {
		events = append(events, object{"event": e.Kind, "address": e.Address, "object": e.Object, "reason": e.Reason,
			"difference_ms": e.Difference.Milliseconds()})
	}
	o.events = nil
	return object{"events": events}
}

func (k *kept) run(c *command) (object, error) {
	ctx, cancel := c.context()
	defer cancel()
	switch c.Do {
	case "next":
		value, err := k.source.Next(ctx)
		return object{"value": strconv.FormatInt(value, 10)}, err
	case "take":
		values, err := make([]int64, max(c.N, 0)), error(nil)
		err = k.source.Take(ctx, values)
		return object{"values": texts(values)}, err
	case "try_next":
		value, isFound := k.source.TryNext()
		if !isFound {
			return object{"value": nil}, nil
		}
		return object{"value": strconv.FormatInt(value, 10)}, nil
	case "warm_up":
		return nil, k.source.WarmUp(ctx, c.N)
	case "abandon":
		return k.abandon(c), nil
	case "stats":
		return k.stats(), nil
	case "copy":
		return object{"same": k.isCopySame()}, nil
	case "serialize":
		return nil, k.serialize()
	case "time":
		return k.time(c.Values)
	}
	return nil, fmt.Errorf("unknown command %q", c.Do)
}

func texts(values []int64) []string {
	found := make([]string, len(values))
	for i, value := range values {
		found[i] = strconv.FormatInt(value, 10)
	}
	return found
}

func max(a, b int) int {
	if a > b {
		return a
	}
	return b
}

func (k *kept) draw(c *command, draws *drawing) (object, error) {
	var threads sync.WaitGroup
	failures := make([]error, c.Threads)
	for i := 0; i < c.Threads; i++ {
		threads.Add(1)
		go func(i int) {
			defer threads.Done()
			failures[i] = k.drawThread(c, draws, c.File+"."+strconv.Itoa(i))
		}(i)
	}
	threads.Wait()
	for _, err := range failures {
		if err != nil {
			return nil, err
		}
	}
	return object{"drawn": draws.drawn, "errors": draws.errors, "after_close": draws.afterClose}, nil
}

func (k *kept) drawThread(c *command, draws *drawing, path string) error {
	var values []int64
	afterClose, has := 0, true
	for len(values) < c.Values && has && !draws.isStopped.Load() {
		wasClosed := k.owner.isClosed.Load()
		count := 1
		if c.Take > 0 {
			count = min(c.Take, c.Values-len(values))
		}
		got, err := k.drawOne(c, count)
		if err != nil {
			has = draws.note(err)
			continue
		}
		values = append(values, got...)
		if wasClosed {
			afterClose += count
		}
	}
	draws.mu.Lock()
	draws.drawn += len(values)
	draws.afterClose += afterClose
	draws.mu.Unlock()
	return write(path, values)
}

func (k *kept) drawOne(c *command, count int) ([]int64, error) {
	ctx, cancel := c.context()
	defer cancel()
	got := make([]int64, count)
	if c.Take > 0 {
		return got, k.source.Take(ctx, got)
	}
	value, err := k.source.Next(ctx)
	got[0] = value
	return got, err
}

func min(a, b int) int { return -max(-a, -b) }

// note counts an error of a draw. It returns whether the thread continues.
func (d *drawing) note(err error) bool {
	name := nameOf(err)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.errors[name]++
	return name == "Unavailable" || name == "ClockError"
}

func write(path string, values []int64) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	output := bufio.NewWriterSize(file, 1<<16)
	var bytes [8]byte
	for _, value := range values {
		binary.LittleEndian.PutUint64(bytes[:], uint64(value))
		output.Write(bytes[:])
	}
	if err := output.Flush(); err != nil {
		return err
	}
	return file.Close()
}

func (k *kept) abandon(c *command) object {
	ctx, cancel := context.WithCancel(context.Background())
	var calls sync.WaitGroup
	var mu sync.Mutex
	cancelled, values := 0, []string{}
	for i := 0; i < c.Calls; i++ {
		calls.Add(1)
		go func() {
			defer calls.Done()
			value, err := k.source.Next(ctx)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				cancelled++
			} else {
				values = append(values, strconv.FormatInt(value, 10))
			}
		}()
	}
	time.Sleep(time.Duration(c.AfterMs) * time.Millisecond)
	cancel()
	calls.Wait()
	return object{"cancelled": cancelled, "values": values}
}

func (k *kept) stats() object {
	if s, isSequence := k.source.(*getid.Sequence); isSequence {
		stats := s.Stats()
		found := object{"values": stats.Values, "fetches": stats.Fetches, "failures": stats.Failures,
			"dropped": stats.Dropped, "waits": stats.Waits, "held": stats.Held, "prefetch": stats.Prefetch,
			"fetch_ms": nil}
		if stats.Fetches > 0 {
			found["fetch_ms"] = stats.Fetch.Seconds() * 1000
		}
		return found
	}
	stats := k.source.(*getid.Worker).Stats()
	found := object{"values": stats.Values, "worker_id": nil, "not_before_ms": nil, "not_after_ms": nil,
		"leases": stats.Leases, "renewals": stats.Renewals, "failures": stats.Failures,
		"clock_ahead_ms": stats.ClockAheadMs}
	if stats.WorkerID != noWorkerID {
		found["worker_id"] = stats.WorkerID
		found["not_before_ms"], found["not_after_ms"] = stats.NotBeforeMs, stats.NotAfterMs
	}
	return found
}

// isCopySame reports whether a copied struct is the same object.
func (k *kept) isCopySame() bool {
	if s, isSequence := k.source.(*getid.Sequence); isSequence {
		copied := *s
		return copied == *s
	}
	w := k.source.(*getid.Worker)
	copied := *w
	return copied == *w
}

// serialize returns the error of encoding an object, or nil if one of the encoders succeeds.
func (k *kept) serialize() error {
	if _, err := json.Marshal(k.source); err == nil {
		return nil
	}
	err := gob.NewEncoder(&bytes.Buffer{}).Encode(k.source)
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %v", getid.ErrUsage, err)
}

func (k *kept) time(count int) (object, error) {
	ctx := context.Background()
	begin := time.Now()
	for i := 0; i < count; i++ {
		if _, err := k.source.Next(ctx); err != nil {
			return nil, err
		}
	}
	return object{"ns": float64(time.Since(begin)) / float64(count)}, nil
}

type counter struct {
	mu    sync.Mutex
	value int64
}

//go:noinline
func (c *counter) next() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.value++
	return c.value
}

func timeCounter(count int) float64 {
	var c counter
	begin := time.Now()
	for i := 0; i < count; i++ {
		c.next()
	}
	return float64(time.Since(begin)) / float64(count)
}
