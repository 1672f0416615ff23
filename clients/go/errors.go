package getid

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Kinds of errors, for errors.Is.
var (
	// ErrUnavailable reports that the time-out of the call passed without a value. The message has the last failure
	// and the address.
	ErrUnavailable = errors.New("getid: unavailable")
	// ErrRefused reports an error of the server that a repetition does not mend, such as NOPERM or an unknown name.
	ErrRefused = errors.New("getid: refused")
	// ErrClock reports that this machine's clock is past the end of a lease that was just given.
	ErrClock = errors.New("getid: clock is ahead")
	// ErrClosed reports a call after Close.
	ErrClosed = errors.New("getid: client is closed")
	// ErrUsage reports an argument outside of its range, or an object that exists with other options.
	ErrUsage = errors.New("getid: wrong argument")
)

// Error is the type of all errors of this package. Its text names what was found, where, and the remedy.
type Error struct {
	// Kind is ErrUnavailable, ErrRefused, ErrClock, ErrClosed or ErrUsage; context.Canceled of a cancelled call.
	Kind error
	// Code is the first word of the server's error, such as "NOPERM". It is empty if the client found the reason.
	Code string
	// Difference is, of ErrClock, how far the clock is past the end of the lease.
	Difference time.Duration

	text  string
	cause error
}

// Error returns the text of the error.
func (e *Error) Error() string { return "getid: " + e.text }

// Is reports whether target is the kind of the error.
func (e *Error) Is(target error) bool { return target == e.Kind }

// Unwrap returns the error of the call's context if that ended the call, or nil.
func (e *Error) Unwrap() error { return e.cause }

func usageError(format string, arguments ...any) error {
	return &Error{Kind: ErrUsage, text: fmt.Sprintf(format, arguments...)}
}

func closedError() error {
	return &Error{Kind: ErrClosed, text: "the client is closed: make another one"}
}

func timeoutError(ctx context.Context, subject string, limit time.Duration, failure string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return &Error{Kind: context.Canceled, text: "the call for " + subject + " was cancelled", cause: ctx.Err()}
	}
	var cause error
	if _, has := ctx.Deadline(); has {
		cause = context.DeadlineExceeded // also where the timer of the call was the first to end it
	}
	limit = limit.Round(time.Millisecond)
	text := fmt.Sprintf("no value of %s within %v: %s", subject, limit, failure)
	return &Error{Kind: ErrUnavailable, text: text, cause: cause}
}

func checkRange(argument string, value, low, high int64) error {
	if value < low || value > high {
		return usageError("%s is %d, must be %d to %d", argument, value, low, high)
	}
	return nil
}

func checkDuration(argument string, value, low, high time.Duration) error {
	if value < low || value > high {
		return usageError("%s is %v, must be %v to %v", argument, value, low, high)
	}
	return nil
}

func checkName(argument, name string) error {
	if len(name) < 1 || len(name) > nameBytesMax {
		return usageError("%s has %d bytes, must have 1 to %d", argument, len(name), nameBytesMax)
	}
	return nil
}

// firstError returns the first error that is not nil.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
