package mssqlsim

import (
	"context"
	"errors"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
)

// handler lets the wire log in to a node.
type handler struct {
	node  *engine.Node
	route func(via string) error // for read intent: nil = stay here, a *tds.Redirect, or a refusal
}

func (h *handler) Login(_ context.Context, login tds.Login) (tds.Session, error) {
	s, err := h.node.Login(engine.Login{User: login.User, Password: login.Password, Database: login.Database, ReadIntent: login.ReadOnly})
	if err == nil && login.ReadOnly {
		if elsewhere := h.route(login.Via); elsewhere != nil {
			s.Close()
			return nil, elsewhere
		}
	}
	if err == nil {
		return &session{engine: s}, nil
	}
	var refusals engine.Errors
	if !errors.As(err, &refusals) {
		return nil, err
	}
	messages := make(tds.Messages, len(refusals))
	for i, one := range refusals {
		messages[i] = message(one)
	}
	return nil, messages
}

// message is an error as the wire carries it.
func message(e *sqlerr.Error) tds.Message {
	return tds.Message{Number: e.Number, State: e.State, Class: e.Severity, Text: e.Text, Line: e.Line}
}

// session is a session of the engine as the wire drives it.
type session struct{ engine *engine.Session }

func (s *session) Execute(ctx context.Context, req tds.Request, w tds.ResponseWriter) {
	if req.Procedure != "" && req.Procedure != "sp_executesql" {
		w.Error(message(sqlerr.Unsupported("the call of %s", req.Procedure)))
		return
	}
	request := engine.Request{SQL: req.SQL, Procedure: req.Procedure != ""}
	for _, p := range req.Params {
		param, err := parameter(p)
		if err != nil {
			w.Error(message(err))
			return
		}
		request.Params = append(request.Params, param)
	}
	var killed *sqlerr.Error
	if err := s.engine.Execute(ctx, request, sink{w}); errors.As(err, &killed) {
		// The session was killed; when the client is what ended it, the wire answers.
		w.Error(message(killed))
	}
}

func (s *session) Begin(_ context.Context, isolation tds.Isolation) error {
	if isolation != tds.IsolationCurrent && isolation != tds.IsolationReadCommitted {
		return message(sqlerr.Unsupported("isolation level %d", isolation))
	}
	return told(s.engine.Begin())
}

func (s *session) Commit(ctx context.Context) error { return told(s.engine.Commit(ctx)) }

func (s *session) Rollback(context.Context) error { return told(s.engine.Rollback()) }

func (s *session) Reset() { s.engine.Reset() }

func (s *session) Close() { s.engine.Close() }

// told is an error of the engine as the wire wants it.
func told(err error) error {
	if e, ok := errors.AsType[*sqlerr.Error](err); ok {
		return message(e)
	}
	return err
}

// sink writes the engine's answers to the wire.
type sink struct{ w tds.ResponseWriter }

func (s sink) Columns(columns []engine.Column) {
	list := make([]tds.Column, len(columns))
	for i, column := range columns {
		list[i] = tds.Column{Name: column.Name, Type: wireType(column.Type)}
	}
	s.w.Columns(list...)
}

func (s sink) Row(values []any) { s.w.Row(values...) }

func (s sink) Done(command engine.Command, rows int64) { s.w.Done(tds.Command(command), rows) }

func (s sink) Error(err *sqlerr.Error) { s.w.Error(message(err)) }

func (s sink) Transaction(change engine.TransactionChange) {
	s.w.Transaction(tds.TransactionChange(change))
}

func (s sink) ReturnStatus(status int32) { s.w.ReturnStatus(status) }
