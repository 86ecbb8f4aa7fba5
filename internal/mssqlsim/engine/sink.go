package engine

import (
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
)

// Column is a column of a result set.
type Column struct {
	Name string
	Type value.Type
}

// NoCount is the number of rows of a statement that tells none: under SET NOCOUNT ON, or one that has failed.
const NoCount int64 = -1

// Command is the kind of a statement, as the wire numbers them.
type Command uint16

// The commands.
const (
	CommandOther   Command = 0xFD
	CommandSelect  Command = 0xC1
	CommandInsert  Command = 0xC3
	CommandDelete  Command = 0xC4
	CommandUpdate  Command = 0xC5
	CommandExecute Command = 0xE0
	CommandBegin   Command = 0xD4
	CommandEndTran Command = 0xD5
)

// TransactionChange is what happened to a session's transaction, with the wire's number.
type TransactionChange uint8

// The changes.
const (
	TransactionBegun      TransactionChange = 8
	TransactionCommitted  TransactionChange = 9
	TransactionRolledBack TransactionChange = 10
)

// Sink takes the answer to a request, in the order in which a server sends it: for each statement Columns, Row for
// each row and Done, or Done alone, or an Error.
type Sink interface {
	Columns(columns []Column)
	Row(values []any)
	Done(command Command, rows int64)
	Error(err *sqlerr.Error)
	Transaction(change TransactionChange)
	ReturnStatus(status int32)
}
