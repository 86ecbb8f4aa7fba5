package engine

import (
	"strings"
	"sync"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
)

// programs are compiled batches, as a server's plan cache has them: a store sends the same few texts again and again, and
// compiling one takes far longer than running it.
type programs struct {
	mu   sync.Mutex
	list map[string]cached
}

// cached is a program with all that it was compiled under, but for its text and the types of its parameters.
type cached struct {
	program    *program
	data       *rows.Database
	generation int64 // of the catalog
	rcsi       bool
}

const maxPrograms = 500

// compiled returns the program of a text. One that was compiled while a transaction has changed the catalog is that
// transaction's alone, and not kept.
func (s *Session) compiled(text string, params []Param) (*program, error) {
	_, own := s.catalog()
	now := cached{data: s.node.Data(), rcsi: s.node.rcsi.Load()}
	_, now.generation = now.data.Catalog()
	key := programKey(text, params)
	p := &s.node.programs
	if !own {
		p.mu.Lock()
		known := p.list[key]
		p.mu.Unlock()
		now.program = known.program
		if known.program != nil && known == now {
			return known.program, nil
		}
	}
	parsed, err := s.node.parse(text)
	if err != nil {
		return nil, err
	}
	if now.program, err = compileBatch(s, parsed, params); err != nil || own {
		return now.program, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.list == nil || len(p.list) >= maxPrograms {
		p.list = map[string]cached{}
	}
	p.list[key] = now
	return now.program, nil
}

func programKey(text string, params []Param) string {
	var key strings.Builder
	key.WriteString(text)
	for _, p := range params {
		key.WriteString("\x00" + p.Name + " " + p.Type.String())
	}
	return key.String()
}
