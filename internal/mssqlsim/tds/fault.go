package tds

import (
	"fmt"
	"strings"
	"time"
)

// Fault is something that goes wrong at one place of the connections and
// requests that match. Server.Inject puts it in.
type Fault struct {
	Match  Match
	Place  Place
	Effect Effect // the zero Effect does nothing but count
	Skip   int    // let this many matches pass first
	Times  int    // surface at most so often; 0 = until taken out
}

// Place is where a fault strikes.
type Place uint8

// The places, in the order in which a connection meets them. Before the login
// a connection has no user and application: only Match.Conn can choose it.
const (
	// AtAccept: the TCP connection is accepted, PRELOGIN is not answered.
	AtAccept Place = iota + 1
	// AtPrelogin: PRELOGIN is answered, the TLS handshake and LOGIN7 are not.
	AtPrelogin
	// AtLogin: LOGIN7 is read, the handler has not seen it.
	AtLogin
	// AtRequest: a request is read but not executed. While it is held here it
	// counts as still under way to the server, and so does everything sent
	// behind it: let go, it is executed even if the client has cancelled it or
	// hung up in the meantime.
	AtRequest
	// AtRow: the first row of an answer has left in a packet of its own. With
	// the zero Effect that early packet is all that happens.
	AtRow
	// AtReply: the request has been executed, nothing of the answer is sent.
	AtReply
	// AtAttention: a cancellation has arrived. Silence drops it for good: the
	// request runs on and no confirmation is sent.
	AtAttention
	// AtWire: any byte in either direction, at any time; Silence is a black
	// hole, which may open again and then delivers what it held.
	AtWire
)

// Effect is what a fault does.
type Effect struct {
	kind     effectKind
	delay    time.Duration
	messages Messages
	ending   Ending
	bytes    int
}

type effectKind uint8

const (
	effectNone effectKind = iota
	effectSilence
	effectDelay
	effectFail
	effectClose
	effectCut
)

// Ending is how a connection is closed.
type Ending uint8

// The endings.
const (
	FIN Ending = iota // in order: the client reads an end of file
	RST               // reset
)

// Silence holds everything until the switch is released or taken out.
func Silence() Effect { return Effect{kind: effectSilence} }

// Delay goes on after a time. AtWire it delays what the server sends.
func Delay(d time.Duration) Effect { return Effect{kind: effectDelay, delay: d} }

// Fail answers with errors: AtLogin refuses the login, AtRequest instead of
// executing, AtRow after the first row and instead of the rest, AtReply instead
// of the answer of what has been executed.
func Fail(errors ...Message) Effect { return Effect{kind: effectFail, messages: errors} }

// Close ends the connection.
func Close(how Ending) Effect { return Effect{kind: effectClose, ending: how} }

// Cut sends the first bytes of the answer, packet headers included, and ends
// the connection. An answer that is not longer arrives whole, and the fault
// does not count as surfaced.
func Cut(bytes int, how Ending) Effect { return Effect{kind: effectCut, bytes: bytes, ending: how} }

// effectsAt says which effects make sense where.
func effectsAt(place Place) []effectKind {
	switch place {
	case AtAccept, AtPrelogin:
		return []effectKind{effectNone, effectSilence, effectDelay, effectClose}
	case AtLogin, AtRequest, AtRow:
		return []effectKind{effectNone, effectSilence, effectDelay, effectClose, effectFail}
	case AtReply:
		return []effectKind{effectNone, effectSilence, effectDelay, effectClose, effectFail, effectCut}
	case AtAttention:
		return []effectKind{effectNone, effectSilence, effectClose}
	case AtWire:
		return []effectKind{effectSilence, effectDelay}
	default:
		return nil
	}
}

func (f Fault) validate() {
	valid := false
	for _, kind := range effectsAt(f.Place) {
		valid = valid || kind == f.Effect.kind
	}
	if !valid {
		panic(fmt.Sprintf("tds: effect %d makes no sense at place %d", f.Effect.kind, f.Place))
	}
	if f.Place == AtWire && (f.Skip != 0 || f.Times != 0) {
		panic("tds: a fault of the wire cannot be counted off")
	}
}

// Match chooses connections and requests. Every field that is set must agree;
// the zero Match agrees with everything.
type Match struct {
	Conn ConnID
	App  string // application name
	User string
	SQL  string // part of the text or of the procedure's name, in any letter case
	Op   Op
	Func func(Subject) bool
}

// Subject is what a Match judges. Request and Op are empty where there is no
// request: before and during the login, and AtWire.
type Subject struct {
	Conn    ConnID
	Login   Login // without the password; zero until LOGIN7 has been read
	Op      Op
	Request Request
}

func (m Match) agrees(s Subject) bool {
	switch {
	case m.Conn != 0 && m.Conn != s.Conn,
		m.App != "" && m.App != s.Login.App,
		m.User != "" && m.User != s.Login.User,
		m.Op != "" && m.Op != s.Op,
		m.SQL != "" && !containsFold(s.Request.SQL, m.SQL) && !containsFold(s.Request.Procedure, m.SQL):
		return false
	default:
		return m.Func == nil || m.Func(s)
	}
}

func containsFold(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}
