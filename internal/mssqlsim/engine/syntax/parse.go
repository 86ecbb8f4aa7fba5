package syntax

import (
	"context"
	"strings"
	"unicode/utf16"

	"github.com/sqlc-dev/teesql/ast"
	"github.com/sqlc-dev/teesql/parser"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
)

// Batch is a parsed batch. It is never changed: several sessions may run it.
type Batch struct {
	Statements []ast.Statement

	units      []uint16
	collations map[int]string // by the offset where the collated thing ends
}

// Parse reads a batch. Its errors are of type *sqlerr.Error.
func Parse(text string) (*Batch, error) {
	tokens, err := scan(text)
	if err != nil {
		return nil, err
	}
	b := &Batch{units: utf16.Encode([]rune(text)), collations: map[int]string{}}
	plain, tokens, err := b.takeCollations(text, tokens)
	if err != nil {
		return nil, err
	}
	script, err := parser.Parse(context.Background(), strings.NewReader(plain))
	if err != nil {
		return nil, sqlerr.Syntax(err.Error())
	}
	switch len(script.Batches) {
	case 0:
		return b, nil
	case 1:
		b.Statements = script.Batches[0].Statements
	default:
		return nil, sqlerr.Syntax("GO is a word of the command line tools, not of the server")
	}
	c := checker{tokens: tokens, covered: map[int]int{}}
	if err := c.check(script.Batches[0]); err != nil {
		return nil, err
	}
	return b, nil
}

// takeCollations blanks out each "COLLATE name" and remembers it with the end of what stands before it. COLLATE binds
// tighter than any operator, so that is a name, a variable, a literal, a call, a parenthesis or a data type.
func (b *Batch) takeCollations(text string, tokens []token) (string, []token, error) {
	plain := []byte(text)
	kept := make([]token, 0, len(tokens))
	for i := 0; i < len(tokens); i++ {
		tok := tokens[i]
		if tok.kind != tokenWord || !strings.EqualFold(tok.text, "COLLATE") {
			kept = append(kept, tok)
			continue
		}
		if i+1 == len(tokens) || tokens[i+1].kind != tokenWord || len(kept) == 0 {
			return "", nil, sqlerr.Syntax("COLLATE needs something before it and the name of a collation behind it")
		}
		end := kept[len(kept)-1].end
		if _, twice := b.collations[end]; twice {
			return "", nil, sqlerr.Syntax("COLLATE twice")
		}
		b.collations[end] = tokens[i+1].text
		for at := tok.from; at < tokens[i+1].to; at++ {
			plain[at] = ' ' // a collation's name is ASCII: bytes are units
		}
		i++
	}
	return string(plain), kept, nil
}

// Spanned is a node of the tree that knows where it stands.
type Spanned interface {
	HasSpan() bool
	EndOffset() int
}

// Collation is the name in the COLLATE clause behind the node, "" if there is none. The node must be what COLLATE can
// stand behind, not an operator's expression that merely ends at the same place.
func (b *Batch) Collation(node Spanned) string {
	if !node.HasSpan() {
		return ""
	}
	return b.collations[node.EndOffset()]
}

// Collations is the number of COLLATE clauses of the batch. A caller that has looked at all of the batch must have met
// as many.
func (b *Batch) Collations() int { return len(b.collations) }

// Text is the text of a node.
func (b *Batch) Text(f *ast.Fragment) string {
	return string(utf16.Decode(b.units[f.StartOffset:min(f.EndOffset(), len(b.units))]))
}

// CollatedAt reports whether something with a COLLATE clause ends at the offset.
func (b *Batch) CollatedAt(offset int) bool { return b.collations[offset] != "" }
