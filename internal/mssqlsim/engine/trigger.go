package engine

import (
	"slices"
	"strings"

	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
)

// createTrigger makes a trigger. Its statements may not look at the tables inserted and deleted. One that is to run instead
// of a statement is in the catalog, and the statement is refused.
func (c *compiler) createTrigger(n *ast.CreateTriggerStatement) (body, error) {
	schema, name, err := definedName(n.TriggerObject.Name)
	if err != nil {
		return nil, err
	}
	trigger := rows.Trigger{Name: n.Name.BaseIdentifier.Value, Instead: n.TriggerType == "InsteadOf"}
	for _, action := range n.TriggerActions {
		trigger.Actions = append(trigger.Actions, strings.ToUpper(action.TriggerActionType))
	}
	for _, node := range statements(n.StatementList) {
		fragment, ok := node.(fragmented)
		if !ok {
			return nil, sqlerr.Unsupported("%T in a trigger", node)
		}
		trigger.Text += strings.TrimRight(strings.TrimSpace(c.batch.Text(fragment.Frag())), ";") + ";\n"
	}
	return func(f *frame) error {
		return f.changeCatalog([]objectName{{schema: schema, name: name}}, func(catalog *rows.Catalog) error {
			t, err := f.altered(catalog, schema, name)
			if err != nil {
				return err
			}
			changed := *t
			changed.Triggers = append(slices.Clone(t.Triggers), trigger)
			catalog.Put(&changed)
			return nil
		})
	}, nil
}

// fire runs the triggers of a table after a statement that has changed it, also if that was no row. They belong to the
// statement: to its transaction, and an error of theirs undoes it.
func (f *frame) fire(t *rows.Table, action string) error {
	for _, trigger := range t.Triggers {
		if !slices.Contains(trigger.Actions, action) {
			continue
		}
		if trigger.Instead {
			return sqlerr.Unsupported("a statement that the trigger %s replaces", trigger.Name)
		}
		if err := f.trigger(trigger); err != nil {
			return err
		}
	}
	return nil
}

func (f *frame) trigger(trigger rows.Trigger) error {
	s := f.session
	tx, auto, rowCount := s.tx, s.auto, s.rowCount
	if tx == nil {
		auto = s.writing()
		s.tx, s.auto = auto, nil // what the trigger changes is part of the statement's own transaction
	}
	child := &frame{session: s, ctx: f.ctx, sink: f.sink, try: 1} // an error is the statement's, which reports it
	err := child.batch(trigger.Text, nil)
	s.tx, s.auto, s.rowCount = tx, auto, rowCount
	return err
}
