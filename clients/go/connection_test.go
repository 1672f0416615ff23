package getid

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"
)

// exchangeWith returns what a connection makes of the bytes that a server sends.
func exchangeWith(t *testing.T, raw string) (any, error) {
	t.Helper()
	here, there := net.Pipe()
	defer there.Close()
	go func() {
		request := make([]byte, 14)
		io.ReadFull(there, request)
		io.WriteString(there, raw)
		there.Close()
	}()
	n := &connection{stream: here, raw: here, reader: bufio.NewReader(here), address: address{"h", "1"}}
	reply, err := n.request([]string{"PING"}, patience)
	if (err == nil) != n.isOpen() {
		t.Fatalf("error %v, open %v", err, n.isOpen())
	}
	return reply, err
}

func TestReplies(t *testing.T) {
	long := strings.Repeat("x", lineBytesMax-3)
	for raw, want := range map[string]any{
		"+OK\r\n":                  status("OK"),
		"+" + long + "\r\n":        status(long),
		":-5\r\n":                  int64(-5),
		":9223372036854775807\r\n": int64(1<<63 - 1),
		"$3\r\na\nb\r\n":           []byte("a\nb"),
		"$0\r\n\r\n":               []byte{},
		"$-1\r\n":                  nil,
		"*-1\r\n":                  nil,
		"*0\r\n":                   []any{},
		"*2\r\n:1\r\n*1\r\n+a\r\n": []any{int64(1), []any{status("a")}},
		"*1\r\n*1\r\n*1\r\n*0\r\n": []any{[]any{[]any{[]any{}}}},
	} {
		if got, err := exchangeWith(t, raw); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%.40q is %v, error %v", raw, got, err)
		}
	}
	got, err := exchangeWith(t, "-NOPERM user\r\n")
	if refusal, isError := got.(*serverError); !isError || refusal.code() != "NOPERM" || err != nil {
		t.Errorf("%v, error %v", got, err)
	}
}

func TestHostileRepliesCloseTheConnection(t *testing.T) {
	bulk := fmt.Sprintf("$%d\r\n%s\r\n", bulkBytesMax, strings.Repeat("x", bulkBytesMax))
	for _, raw := range []string{
		"", "+OK", "+OK\n", "\r\n", "?\r\n", ":\r\n", ":1x\r\n", ":+1\r\n", ":9223372036854775808\r\n", "$\r\n", "$-2\r\n",
		"$1048577\r\n", "$3\r\nabcd\r\n", "$3\r\nab", "*1000001\r\n", "*-2\r\n", "*1\r\n", "+OK\r\n+OK\r\n",
		"*1\r\n*1\r\n*1\r\n*1\r\n*0\r\n", "+" + strings.Repeat("x", lineBytesMax) + "\r\n",
		strings.Repeat("x", lineBytesMax+10),
		"*17\r\n" + strings.Repeat(bulk, 17),
	} {
		reply, err := exchangeWith(t, raw)
		var lost *lostError
		if !errors.As(err, &lost) || lost.isConnect || len(err.Error()) > 300 {
			t.Errorf("%.40q is %v, error %v", raw, reply, err)
		}
	}
}

func TestAnEndedConnectionSendsNothing(t *testing.T) {
	here, there := net.Pipe()
	n := &connection{stream: here, raw: here, reader: bufio.NewReader(here)}
	n.abort()
	if _, err := n.request([]string{"PING"}, patience); err == nil {
		t.Fatal("a reply of a closed connection")
	}
	if read, err := io.ReadAll(there); err != nil || len(read) > 0 {
		t.Fatalf("%q, error %v", read, err)
	}
}

func TestASilentServerIsATimeOut(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	go io.Copy(io.Discard, there)
	n := &connection{stream: here, raw: here, reader: bufio.NewReader(here)}
	_, err := n.request([]string{"PING"}, time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "no reply within the time-out") || n.isOpen() {
		t.Fatal(err)
	}
}

func TestRequestsAreArraysOfBulkStrings(t *testing.T) {
	if got := string(encode([]string{"A", "", "b c"})); got != "*3\r\n$1\r\nA\r\n$0\r\n\r\n$3\r\nb c\r\n" {
		t.Fatalf("%q", got)
	}
}
