package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/locks"
)

// Login is what a client says about itself.
type Login struct {
	User, Password string
	Database       string // "" = the node's
	ReadIntent     bool   // ApplicationIntent=ReadOnly
}

// Errors are the errors of a refused login, in the order in which a server sends them.
type Errors []*sqlerr.Error

func (e Errors) Error() string {
	return errors.Join(e.Unwrap()...).Error()
}

// Unwrap makes the single errors visible to errors.Is and errors.As.
func (e Errors) Unwrap() []error {
	all := make([]error, len(e))
	for i, one := range e {
		all[i] = one
	}
	return all
}

// Session is one connection. One goroutine uses it at a time, but for Kill.
type Session struct {
	node       *Node
	id         uint64
	who        principal
	readIntent bool
	locks      *locks.Session
	whole      *locks.Owner // what lasts as long as the session

	settings
	tx        *transaction // opened by BEGIN TRANSACTION, nil otherwise
	auto      *transaction // of the statement that runs, if none is open and it needs one
	rowCount  int64        // @@ROWCOUNT
	lastError int32        // @@ERROR

	mu     sync.Mutex
	killed bool
	cancel context.CancelCauseFunc // of the running request
}

// settings are what SET changes and a reset restores.
type settings struct {
	noCount     bool
	xactAbort   bool
	implicit    bool // IMPLICIT_TRANSACTIONS
	lockTimeout time.Duration
}

func defaults() settings { return settings{lockTimeout: locks.Forever} }

// Login opens a session. A refusal is of type Errors.
func (n *Node) Login(login Login) (*Session, error) {
	failed := sqlerr.New(18456, "Login failed for user '%s'.", login.User).With(14, 1)
	who, ok := n.authenticate(login.User, login.Password)
	if !ok {
		return nil, Errors{failed}
	}
	wanted := login.Database
	if wanted == "" {
		wanted = n.database
	}
	if rows.Fold(wanted) != rows.Fold(n.database) || n.State() == Offline {
		return nil, Errors{sqlerr.New(4060, "Cannot open database \"%s\" requested by the login. The login failed.", wanted).With(11, 1), failed}
	}
	if err := n.usable(login.ReadIntent); err != nil {
		var refusal *sqlerr.Error
		errors.As(err, &refusal)
		return nil, Errors{refusal, sqlerr.New(4060, "Cannot open database \"%s\" requested by the login. The login failed.", wanted).With(11, 1), failed}
	}
	s := &Session{node: n, who: who, readIntent: login.ReadIntent, locks: n.locks.Session(), settings: defaults()}
	s.whole = s.locks.Owner()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lastID++
	s.id = n.lastID
	n.sessions[s.id] = s
	return s, nil
}

// ID is @@SPID.
func (s *Session) ID() uint64 { return s.id }

// InTransaction reports whether BEGIN TRANSACTION has opened a transaction that is still open.
func (s *Session) InTransaction() bool { return s.tx != nil }

// Reset is sp_reset_connection: it rolls back, releases what the session holds, and restores the settings.
func (s *Session) Reset() {
	s.rollback()
	s.whole.UnlockAll()
	s.settings = defaults()
	s.rowCount, s.lastError = 0, 0
}

// Close ends the session.
func (s *Session) Close() {
	s.Reset()
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	delete(s.node.sessions, s.id)
}

// Kill makes the running request, or the next one, end with error 596, of a severity that closes the connection.
func (s *Session) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killed = true
	if s.cancel != nil {
		s.cancel(sqlerr.Killed())
	}
}

// started registers a request so that Kill can reach it.
func (s *Session) started(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = cancel
	if s.killed {
		cancel(sqlerr.Killed())
	}
	return ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.cancel = nil
		cancel(nil)
	}
}

// catalog is the catalog as the session sees it, and whether that is a version that only it has.
func (s *Session) catalog() (catalog *rows.Catalog, own bool) {
	for _, tx := range []*transaction{s.tx, s.auto} {
		if tx != nil {
			if c, changed := tx.rows.Catalog(); changed {
				return c, true
			}
		}
	}
	c, _ := s.node.Data().Catalog()
	return c, false
}

// Param is a parameter of a request, declared with its type.
type Param struct {
	Name  string // with its @
	Type  value.Type
	Value any
}

// Request is a batch, or a call of sp_executesql with its parameters.
type Request struct {
	SQL    string
	Params []Param
	// Procedure: the text came by sp_executesql, which checks at its end that it leaves as many transactions open as
	// it found.
	Procedure bool
}

// Execute runs a request and writes its answer to the sink. It returns an error only if ctx ended it, namely the cause;
// what was not committed by then is rolled back, but an open transaction stays open unless XACT_ABORT is on.
func (s *Session) Execute(ctx context.Context, request Request, sink Sink) error {
	ctx, done := s.started(ctx)
	defer done()
	before := s.depth()
	f := &frame{session: s, ctx: ctx, sink: sink}
	err := f.batch(request.SQL, request.Params)
	var raised *sqlerr.Error
	switch {
	case err == nil:
		if s.tx != nil && s.tx.doomed {
			s.rollbackAnnounced(sink)
			f.report(sqlerr.DoomedAtEnd())
		}
		if after := s.depth(); request.Procedure && after != before {
			f.report(sqlerr.TransactionCount(before, after))
		}
		return nil
	case errors.Is(err, errEnded):
		return nil
	case errors.As(err, &raised):
		if s.xactAbort || raised.Scope == sqlerr.EndsSession {
			s.rollbackAnnounced(sink)
		}
		f.report(raised)
		return nil
	default: // the context ended it
		if s.xactAbort {
			s.rollbackAnnounced(sink)
		}
		return err
	}
}

// depth is @@TRANCOUNT.
func (s *Session) depth() int {
	if s.tx == nil {
		return 0
	}
	return s.tx.depth
}
