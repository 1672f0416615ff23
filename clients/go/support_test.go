package getid

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"getid.local/client/internal/clock"
)

// patience bounds the wait for an event that comes.
const patience = 30 * time.Second

// fakeServer is a server in this process. A test answers each request itself.
type fakeServer struct {
	t        *testing.T
	listener net.Listener
	requests chan *fakeRequest
	ends     chan struct{} // one for each connection that has ended
}

// fakeRequest is a request that a client has sent.
type fakeRequest struct {
	t          *testing.T
	text       string
	connection net.Conn
}

func startServer(t *testing.T) *fakeServer {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &fakeServer{t, listener, make(chan *fakeRequest, 100), make(chan struct{}, 100)}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go s.read(connection)
		}
	}()
	return s
}

func (s *fakeServer) read(connection net.Conn) {
	defer func() {
		connection.Close()
		s.ends <- struct{}{}
	}()
	reader := bufio.NewReader(connection)
	for {
		text, err := readRequest(reader)
		if err != nil {
			return
		}
		s.requests <- &fakeRequest{s.t, text, connection}
	}
}

func readRequest(reader *bufio.Reader) (string, error) {
	line, err := reader.ReadString('\n')
	if err != nil {
		return "", err
	}
	count, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	words := make([]string, count)
	for i := range words {
		if line, err = reader.ReadString('\n'); err != nil {
			return "", err
		}
		size, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
		word := make([]byte, size+2)
		if _, err = io.ReadFull(reader, word); err != nil {
			return "", err
		}
		words[i] = string(word[:size])
	}
	return strings.Join(words, " "), nil
}

func (s *fakeServer) address() string { return s.listener.Addr().String() }

// expect waits for the next request, which must be this text. A '*' at its end stands for any rest.
func (s *fakeServer) expect(text string) *fakeRequest {
	s.t.Helper()
	select {
	case r := <-s.requests:
		prefix := strings.TrimSuffix(text, "*")
		if r.text != text && (prefix == text || !strings.HasPrefix(r.text, prefix)) {
			s.t.Fatalf("request %q, must be %q", r.text, text)
		}
		return r
	case <-time.After(patience):
		s.t.Fatalf("no request came, must be %q", text)
	}
	return nil
}

// expectEnd waits until a connection has ended.
func (s *fakeServer) expectEnd() {
	s.t.Helper()
	select {
	case <-s.ends:
	case <-time.After(patience):
		s.t.Fatal("no connection ended")
	}
}

// expectNothing checks that no request has come. What the client does at once has been done when it is called.
func (s *fakeServer) expectNothing() {
	s.t.Helper()
	select {
	case r := <-s.requests:
		s.t.Fatalf("request %q, must be none", r.text)
	default:
	}
}

func (r *fakeRequest) reply(raw string) {
	if _, err := r.connection.Write([]byte(raw)); err != nil {
		r.t.Log("reply: ", err)
	}
}

func (r *fakeRequest) replyRange(first, last, step int64) {
	r.reply(fmt.Sprintf("*3\r\n:%d\r\n:%d\r\n:%d\r\n", first, last, step))
}

func (r *fakeRequest) replyLease(id, notBefore, notAfter, lengthMs int64) {
	r.reply(fmt.Sprintf("*5\r\n:%d\r\n$3\r\ntok\r\n:%d\r\n:%d\r\n:%d\r\n", id, notBefore, notAfter, lengthMs))
}

func (r *fakeRequest) replyEnd(notAfter int64) { r.reply(fmt.Sprintf("*1\r\n:%d\r\n", notAfter)) }

const startMs = 1_800_000_000_000

// open returns a client of a server, with a clock that stands still.
func open(t *testing.T, s *fakeServer, options ...Option) (*Client, *clock.Clock) {
	t.Helper()
	k := clock.NewFrozen(startMs)
	options = append([]Option{clock.Option(k).(Option), WithTimeout(patience)}, options...)
	c, err := New("getid://"+s.address(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		c.Close(ended)
	})
	return c, k
}

// result is what a call returned.
type result struct {
	value int64
	err   error
}

// start makes a call in a goroutine of its own, and returns when it waits for the server.
func start(s Source) chan result {
	return startWith(context.Background(), s)
}

func startWith(ctx context.Context, s Source) chan result {
	results := make(chan result, 1)
	before := waitersOf(s)
	go func() {
		value, err := s.Next(ctx)
		results <- result{value, err}
	}()
	for waitersOf(s) == before && len(results) == 0 {
		time.Sleep(time.Millisecond / 10)
	}
	return results
}

func waitersOf(s Source) int {
	var state *source
	switch s := s.(type) {
	case *Sequence:
		state = s.state.common()
	case *Worker:
		state = s.state.common()
	}
	state.core.mu.Lock()
	defer state.core.mu.Unlock()
	return len(state.waiters)
}

func (r result) check(t *testing.T, value int64) {
	t.Helper()
	if r.err != nil || r.value != value {
		t.Fatalf("value %d, error %v, must be %d", r.value, r.err, value)
	}
}

func wait(t *testing.T, results chan result) result {
	t.Helper()
	select {
	case r := <-results:
		return r
	case <-time.After(patience):
		t.Fatal("a call does not return")
	}
	return result{}
}

func nextIs(t *testing.T, s Source, values ...int64) {
	t.Helper()
	for _, value := range values {
		got, err := s.Next(context.Background())
		result{got, err}.check(t, value)
	}
}

// waitFor waits until a condition holds.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond / 10) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}
