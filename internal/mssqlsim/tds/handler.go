package tds

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Why the context of a request ended, as context.Cause reports it.
var (
	// ErrAttention: the client cancelled the request and waits for the
	// confirmation. The wire sends it once the handler has returned.
	ErrAttention = errors.New("tds: the client cancelled the request")
	// ErrDisconnected: the connection is gone, nobody reads the answer.
	ErrDisconnected = errors.New("tds: the connection is gone")
)

// Handler is the database behind the wire. Login is called once per
// connection, from that connection's goroutine.
//
// A refusal is an error of type [Message] or [Messages] (sent as ERROR tokens
// in that order; the driver reports the last one's number), or a [*Redirect]
// (read-only routing: the client is sent elsewhere). Any other error is sent
// as 18456, "Login failed".
type Handler interface {
	Login(ctx context.Context, login Login) (Session, error)
}

// Login is what a client said about itself.
type Login struct {
	Conn           ConnID
	User, Password string
	Database       string // "" = the user's default
	App, Host      string // program_name, host_name
	Server         string // the server name the client asked for
	Via            string // what Adopt was told; "" = by the server's own port
	ReadOnly       bool   // ApplicationIntent=ReadOnly
	Encrypted      bool   // TLS for the whole session
	PacketSize     int
}

// ConnID numbers the connections of a server from 1, in order of acceptance.
type ConnID uint64

// Session is one logged-in connection. The wire calls one method at a time and
// in order, all but Close from the same goroutine; Close comes last, after the
// method before it has returned, exactly once.
//
// Every method must return soon after its context has ended (see
// [ErrAttention], [ErrDisconnected]): until then the client gets no
// confirmation of its cancellation, and closing the server waits.
type Session interface {
	// Execute runs one request and writes its answer. The wire ends the
	// answer when Execute returns. A request that ctx ended writes nothing
	// about it: the wire confirms the cancellation. An autocommit statement
	// that was cut off by ctx must be rolled back by the session.
	Execute(ctx context.Context, req Request, w ResponseWriter)

	// Begin, Commit and Rollback are the requests of the transaction manager
	// (sql.Tx). An error is a Message or Messages.
	Begin(ctx context.Context, isolation Isolation) error
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error

	// Reset is sp_reset_connection: called before the request that carries
	// the reset bit is executed. It rolls back an open transaction and
	// restores database and SET options.
	Reset()

	// Close ends the session: rolls back, releases its locks.
	Close()
}

// Request is one message that wants something executed: a batch
// (Procedure "", no Params), sp_executesql (Procedure "sp_executesql"; SQL and
// Params are what it was given) or another procedure by name (SQL "").
type Request struct {
	Conn      ConnID
	Procedure string
	SQL       string
	Params    []Param
	// InTransaction: the client believes that a transaction is open.
	InTransaction bool
}

// Param is one parameter of a request.
type Param struct {
	Name     string // with its @; "" = positional
	Declared string // its type in the declaration of sp_executesql, else ""
	Type     Type   // as sent; the zero Type is an untyped NULL
	Value    any    // as in ResponseWriter.Row
}

// Isolation is the level a transaction asks for.
type Isolation uint8

// The levels as TDS numbers them.
const (
	IsolationCurrent Isolation = iota
	IsolationReadUncommitted
	IsolationReadCommitted
	IsolationRepeatableRead
	IsolationSerializable
	IsolationSnapshot
)

// ResponseWriter takes the answer of one request, statement by statement:
// Columns, Row for each row, Done; or Done alone for a statement without rows.
// It is used from Execute's goroutine only and not after Execute has returned.
// It never fails: when the connection is gone the context says so and what is
// written is dropped.
type ResponseWriter interface {
	// Columns begins a result set.
	Columns(columns ...Column)
	// Row sends one row: a value for each column, nil, bool (Bit), int64
	// (BigInt, Int, SmallInt, TinyInt), float64 (Float), string (NVarChar),
	// []byte (VarBinary, Binary, RowVersion, UniqueIdentifier) or time.Time
	// (DateTimeOffset, DateTime2, Date). A value that does not fit the column
	// is a defect of the handler and panics.
	Row(values ...any)
	// Done ends a statement. With rows = NoCount (SET NOCOUNT ON) the count
	// is not sent, and for a statement without columns nothing is.
	Done(cmd Command, rows int64)
	// Error sends an ERROR token; the next Done, or the end of the request,
	// carries the error bit. A class of 20 or more ends the connection.
	Error(m Message)
	// Info sends an INFO token (class 10 or less).
	Info(m Message)
	// Transaction announces that the text of the request itself began,
	// committed or rolled back a transaction (a deadlock victim's, say).
	Transaction(change TransactionChange)
	// ReturnStatus is the return value of a procedure; 0 if never called.
	ReturnStatus(status int32)
	// Flush sends what has been written so far in a packet of its own. Without
	// it a packet leaves when it is full or when the request ends.
	Flush()
}

// NoCount is the row count of a statement under SET NOCOUNT ON.
const NoCount int64 = -1

// Command says in a DONE token what kind of statement ended.
type Command uint16

// The commands of the statements that a simulator knows.
const (
	CommandNone    Command = 0
	CommandSelect  Command = 0xC1
	CommandInsert  Command = 0xC3
	CommandDelete  Command = 0xC4
	CommandUpdate  Command = 0xC5
	CommandExecute Command = 0xE0
	CommandBegin   Command = 0xD4
	CommandEndTran Command = 0xD5
	CommandMerge   Command = 0x117
	CommandOther   Command = 0xFD
)

// TransactionChange is what happened to the session's transaction.
type TransactionChange uint8

// The changes, with the numbers of their ENVCHANGE tokens.
const (
	TransactionBegun      TransactionChange = 8
	TransactionCommitted  TransactionChange = 9
	TransactionRolledBack TransactionChange = 10
)

// Column is a column of a result set.
type Column struct {
	Name string
	Type Type
}

// Message is the content of an ERROR or INFO token.
type Message struct {
	Number       int32
	State, Class uint8 // class = severity
	Text         string
	Procedure    string
	Line         int32
}

// Error makes a Message usable as the error of a login or a transaction call.
func (m Message) Error() string {
	return fmt.Sprintf("Msg %d, Level %d, State %d: %s", m.Number, m.Class, m.State, m.Text)
}

// Messages are several errors of one login or request, in order of sending.
type Messages []Message

func (m Messages) Error() string {
	texts := make([]string, len(m))
	for i, message := range m {
		texts[i] = message.Error()
	}
	return strings.Join(texts, "; ")
}

// Redirect is returned by Login and routes the client to another server.
type Redirect struct {
	Host string
	Port uint16
}

func (r *Redirect) Error() string { return fmt.Sprintf("go to %s:%d", r.Host, r.Port) }
