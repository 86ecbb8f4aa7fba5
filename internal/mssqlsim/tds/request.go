package tds

import "strings"

// Op is what kind of request a client sent.
type Op string

// The operations.
const (
	OpBatch    Op = "batch" // a text without parameters
	OpRPC      Op = "rpc"   // sp_executesql, or a procedure by name
	OpBegin    Op = "begin"
	OpCommit   Op = "commit"
	OpRollback Op = "rollback"
)

// command is a parsed request message. A refused one is well-formed but asks
// for something that this server does not do.
type command struct {
	op          Op
	transaction uint64 // descriptor; 0 = autocommit
	isolation   Isolation
	Request
	refusal Messages
}

func refuse(number int32, text string) Messages {
	return Messages{{Number: number, State: 1, Class: 16, Text: text, Line: 1}}
}

// parseCommand parses the body of a batch, RPC or transaction message.
func parseCommand(kind byte, body []byte) (command, error) {
	d := decoder{b: body}
	c := command{transaction: parseHeaders(&d)}
	c.InTransaction = c.transaction != 0
	switch kind {
	case packetBatch:
		c.op = OpBatch
		if len(d.b)%2 != 0 {
			d.fail("batch of %d bytes", len(d.b))
		}
		c.SQL = decodeUTF16(d.b)
	case packetRPC:
		c.op = OpRPC
		c.parseRPC(&d)
	case packetTransaction:
		c.parseTransaction(&d)
	default:
		d.fail("message type %#x", kind)
	}
	return c, d.err
}

// parseHeaders reads ALL_HEADERS and returns the transaction descriptor.
func parseHeaders(d *decoder) (transaction uint64) {
	const transactionHeader = 2
	all := decoder{b: d.take(int(d.uint32()) - 4)}
	for len(all.b) > 0 {
		header := decoder{b: all.take(int(all.uint32()) - 4)}
		if header.uint16() == transactionHeader {
			transaction = header.uint64()
			header.uint32() // requests outstanding
		}
		if header.err != nil {
			all.fail("%v", header.err)
		}
	}
	if all.err != nil {
		d.fail("headers: %v", all.err)
	}
	return transaction
}

const executeSQL = "sp_executesql"

func (c *command) parseRPC(d *decoder) {
	const (
		byNumber         = 0xFFFF
		executeSQLNumber = 10
	)
	if length := d.uint16(); length != byNumber {
		c.Procedure = decodeUTF16(d.take(2 * int(length)))
	} else if number := d.uint16(); number == executeSQLNumber {
		c.Procedure = executeSQL
	} else if d.err == nil {
		c.refusal = refuse(2812, "Procedures by number other than sp_executesql are not supported by the simulator.")
		return
	}
	d.uint16() // option flags
	for len(d.b) > 0 && c.refusal == nil {
		c.parseParam(d)
	}
	if d.err == nil && c.refusal == nil && strings.EqualFold(c.Procedure, executeSQL) {
		c.refusal = c.unwrapExecuteSQL()
	}
}

func (c *command) parseParam(d *decoder) {
	var p Param
	p.Name = d.bVarChar()
	status := d.uint8()
	var refusal Messages
	p.Type, p.Value, refusal = parseValue(d)
	switch {
	case refusal != nil:
		c.refusal = refusal
	case status != 0:
		c.refusal = refuse(8009, "Output, default and encrypted parameters are not supported by the simulator.")
	case d.err == nil:
		c.Params = append(c.Params, p)
	}
}

// unwrapExecuteSQL turns the parameters of sp_executesql into what they mean:
// a text, the declaration of its parameters, their values.
func (c *command) unwrapExecuteSQL() Messages {
	text, ok := textParam(c.Params, 0)
	if !ok {
		return refuse(214, "Procedure expects parameter '@statement' of type 'ntext/nchar/nvarchar'.")
	}
	c.Procedure, c.SQL = executeSQL, text
	if len(c.Params) == 1 {
		c.Params = nil
		return nil
	}
	declaration, ok := textParam(c.Params, 1)
	if !ok {
		return refuse(214, "Procedure expects parameter '@params' of type 'ntext/nchar/nvarchar'.")
	}
	c.Params = c.Params[2:]
	declared := parseDeclaration(declaration)
	if len(declared) != len(c.Params) {
		return refuse(8178, "The parameterized query expects as many parameters as it declares.")
	}
	for i := range c.Params {
		p := &c.Params[i]
		if p.Name == "" {
			p.Name = declared[i].name
		}
		for _, one := range declared {
			if strings.EqualFold(one.name, p.Name) {
				p.Declared = one.typ
			}
		}
		if p.Declared == "" {
			return refuse(8145, p.Name+" is not a parameter for the parameterized query.")
		}
	}
	return nil
}

func textParam(params []Param, i int) (string, bool) {
	if i >= len(params) || params[i].Type.Kind != NVarChar {
		return "", false
	}
	text, ok := params[i].Value.(string)
	return text, ok
}

type declaration struct{ name, typ string }

// parseDeclaration splits "@p1 nvarchar(5),@p2 decimal(18, 2)" at the commas
// outside of parentheses.
func parseDeclaration(text string) []declaration {
	var declared []declaration
	depth, start := 0, 0
	for i := 0; i <= len(text); i++ {
		switch {
		case i == len(text) || text[i] == ',' && depth == 0:
			name, typ, _ := strings.Cut(strings.TrimSpace(text[start:i]), " ")
			if name != "" {
				declared = append(declared, declaration{name, strings.TrimSpace(typ)})
			}
			start = i + 1
		case text[i] == '(':
			depth++
		case text[i] == ')':
			depth--
		}
	}
	return declared
}

func (c *command) parseTransaction(d *decoder) {
	const (
		begin    = 5
		commit   = 7
		rollback = 8
	)
	switch number := d.uint16(); number {
	case begin:
		c.op = OpBegin
		c.isolation = Isolation(d.uint8())
		d.bVarChar() // name
	case commit, rollback:
		c.op = OpCommit
		if number == rollback {
			c.op = OpRollback
		}
		d.bVarChar() // name
		if flags := d.uint8(); flags != 0 {
			c.refusal = refuse(3930, "Beginning a transaction while ending one is not supported by the simulator.")
		}
	default:
		c.refusal = refuse(3930, "Distributed transactions and savepoints are not supported by the simulator.")
	}
}
