package hbase

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/region"
	"google.golang.org/protobuf/proto"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// javaPrefix begins gohbase's text of a server exception. The class of the exception
// follows on the same line, and the stack trace on the next lines.
const javaPrefix = "HBase Java exception "

// lasting lists the exceptions after which a repeated call would fail again. All other
// exceptions are assumed to be temporary.
var lasting = []string{
	"TableNotFoundException", "TableExistsException", "TableNotEnabledException",
	"TableNotDisabledException", "NoSuchColumnFamilyException", "NamespaceNotFoundException",
	"AccessDeniedException", "DoNotRetryIOException", "UnsupportedOperationException",
	"IllegalArgumentException", "ClassNotFoundException", "QuotaExceededException",
	"ConstraintException", "InvalidFamilyOperationException", "FailedSanityCheckException",
}

// A serverError is an exception with which HBase answered a call.
type serverError struct {
	class string // name of the exception's class, without its package
	text  string // first line of the exception's text
}

func (e *serverError) Error() string { return e.class + ": " + e.text }

// parseServerError returns the exception in an error of gohbase, without its stack trace.
// It returns nil if the error is not an exception.
func parseServerError(err error) *serverError {
	_, s, ok := strings.Cut(err.Error(), javaPrefix)
	if !ok {
		return nil
	}
	head, stack, _ := strings.Cut(s, "\n")
	class := strings.TrimSuffix(strings.TrimSpace(head), ":")
	class = class[strings.LastIndexByte(class, '.')+1:]
	text, _, _ := strings.Cut(stack, "\n")
	if _, after, ok := strings.Cut(text, "Exception: "); ok {
		text = after
	}
	return &serverError{class, strings.TrimSpace(text)}
}

// isException reports whether an error is an exception of the given class.
func isException(err error, class string) bool {
	var e *serverError
	if !errors.As(err, &e) {
		if e = parseServerError(err); e == nil {
			return false
		}
	}
	return e.class == class
}

// classify converts an error of gohbase into an error of package table.
func classify(err error) error {
	if errors.Is(err, gohbase.TableNotFound) {
		return errors.New("the table does not exist in HBase")
	}
	e := parseServerError(err)
	if e == nil {
		return fmt.Errorf("%w: %w", table.ErrUnavailable, err)
	}
	if strings.Contains(e.text, "exceeds limit of") || strings.Contains(e.text, "exceeds the limit") {
		return fmt.Errorf("%w for the region server (hbase.server.keyvalue.maxsize): %w", table.ErrTooLarge, e)
	}
	if passes(err, e) {
		return fmt.Errorf("%w: %w", table.ErrUnavailable, e)
	}
	return e
}

// busy lists the exceptions with which a server refuses a call because it has too much to do. gohbase
// repeats such a call until its context ends.
var busy = []string{"RpcThrottlingException", "RegionTooBusyException", "CallQueueTooBigException"}

// busyAnswer returns the exception in the error of a call if it is one of busy.
func busyAnswer(err error) *serverError {
	if e := parseServerError(err); e != nil && slices.Contains(busy, e.class) {
		return e
	}
	return nil
}

// An attempts is a part of a call. It records the exception with which a server last refused the call
// because it had too much to do. gohbase itself returns only that the context has ended.
type attempts struct{ refused error }

// SetQueueTime implements hrpc.RPCObserver.
func (*attempts) SetQueueTime(time.Time) {}

// SetSendTime implements hrpc.RPCObserver.
func (*attempts) SetSendTime(time.Time) {}

// OnComplete implements hrpc.RPCObserver. gohbase calls it after each attempt.
func (a *attempts) OnComplete(_ proto.Message, err error, _ bool) {
	if err != nil && busyAnswer(err) != nil {
		a.refused = err
	}
}

func (a *attempts) lastRefusal() error { return a.refused }

func passes(err error, e *serverError) bool {
	switch err.(type) {
	case region.ServerError, region.RetryableError, region.NotServingRegionError:
		return true
	}
	return !slices.Contains(lasting, e.class)
}
