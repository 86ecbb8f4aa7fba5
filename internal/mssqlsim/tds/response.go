package tds

import (
	"errors"
	"fmt"
)

// response writes the answer of one request as tokens.
type response struct {
	conn    *conn
	subject Subject
	packets *packetWriter
	rpc     bool

	columns []Column // of the open result set, else nil
	rows    int      // in the whole answer
	held    *done    // a batch's last DONE, until it is known whether more follows
	status  int32
	failed  bool // an error since the last DONE
	errors  int  // in the whole answer
	fatal   bool // an error ended the connection
	dropped bool // nothing that the handler writes is sent any more
	scratch []byte
}

type done struct {
	status uint16
	cmd    Command
	rows   int64
}

func (r *response) Columns(columns ...Column) {
	if len(columns) == 0 || r.columns != nil {
		panic("tds: a result set without columns, or before the last one is done")
	}
	r.columns = columns
	r.put(func(b []byte) []byte { return appendColumns(b, columns) })
}

func (r *response) Row(values ...any) {
	r.put(func(b []byte) []byte { return appendRow(b, r.columns, values) })
	if r.rows++; r.rows == 1 && !r.dropped {
		r.conn.firstRow(r)
	}
}

func (r *response) Done(cmd Command, rows int64) {
	status := uint16(0)
	if rows != NoCount {
		status |= doneCount
	}
	if r.failed {
		status |= doneError
	}
	silent := rows == NoCount && r.columns == nil && !r.failed
	r.columns = nil
	if silent || r.dropped {
		return
	}
	r.failed = false
	if r.rpc {
		r.put(func(b []byte) []byte {
			return appendDone(b, tokenDoneInProc, status|doneMore|r.conn.inTransaction(), cmd, rows)
		})
		return
	}
	r.releaseHeld()
	r.held = &done{status, cmd, rows}
}

func (r *response) Error(m Message) {
	r.put(func(b []byte) []byte { return appendMessage(b, tokenError, m) })
	if r.dropped {
		return
	}
	r.failed = true
	r.errors++
	if m.Class >= fatalClass {
		r.fatal, r.dropped = true, true
	}
}

func (r *response) Info(m Message) {
	r.put(func(b []byte) []byte { return appendMessage(b, tokenInfo, m) })
}

func (r *response) Transaction(change TransactionChange) {
	id := r.conn.changeTransaction(change)
	r.put(func(b []byte) []byte { return appendEnvTransaction(b, change, id) })
}

func (r *response) ReturnStatus(status int32) { r.status = status }

func (r *response) Flush() { r.packets.flush() }

// put writes one token.
func (r *response) put(token func([]byte) []byte) {
	r.scratch = token(r.scratch[:0])
	if !r.dropped {
		r.releaseHeld()
		r.packets.write(r.scratch)
	}
}

func (r *response) releaseHeld() {
	if d := r.held; d != nil && !r.dropped {
		r.held = nil
		r.packets.write(appendDone(nil, tokenDone, d.status|doneMore|r.conn.inTransaction(), d.cmd, d.rows))
	}
}

// fail sends errors and drops what the handler writes from now on.
func (r *response) fail(messages Messages) {
	for _, m := range messages {
		r.Error(m)
	}
	r.dropped = true
}

// replace forgets the answer, of which nothing has been sent, for errors.
func (r *response) replace(messages Messages) {
	r.packets.begin()
	*r = response{conn: r.conn, subject: r.subject, packets: r.packets, rpc: r.rpc}
	r.fail(messages)
}

// end writes the tokens that end the answer. An acknowledged cancellation
// takes the place of the last DONE.
func (r *response) end(attention bool) {
	var b []byte
	switch {
	case r.fatal:
		b = appendDone(b, tokenDone, doneError|doneServerError, CommandNone, 0)
	case attention:
		b = appendDone(b, tokenDone, doneAttention, CommandNone, 0)
	case r.rpc:
		status := r.conn.inTransaction()
		if r.errors > 0 {
			status |= doneError
		}
		b = appendReturnStatus(b, r.status)
		b = appendDone(b, tokenDoneProc, status, CommandExecute, 0)
	case r.held != nil:
		b = appendDone(b, tokenDone, r.held.status|r.conn.inTransaction(), r.held.cmd, r.held.rows)
	case r.failed:
		b = appendDone(b, tokenDone, doneError|r.conn.inTransaction(), CommandNone, 0)
	default:
		b = appendDone(b, tokenDone, r.conn.inTransaction(), CommandNone, 0)
	}
	r.packets.write(b)
}

// messagesOf are the ERROR tokens for what a handler returned.
func messagesOf(err error, fallback Message) Messages {
	var one Message
	var many Messages
	switch {
	case errors.As(err, &one):
		return Messages{one}
	case errors.As(err, &many):
		return many
	default:
		fallback.Text = fmt.Sprintf("%s (%v)", fallback.Text, err)
		return Messages{fallback}
	}
}
