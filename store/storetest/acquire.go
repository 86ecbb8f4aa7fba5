package storetest

import (
	"errors"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

var acquireCases = []testCase{
	{name: "a free name is granted, a held one refused", run: func(s *suite) {
		first, second := claim("job", long), claim("job", long)
		lease := s.grant(first)
		_, err := s.st.Acquire(s.Context(), second)
		held, ok := errors.AsType[*store.HeldError](err)
		require.True(s, ok, "rule S1: a live row of another owner refuses the claim, got %v", err)
		require.Equal(s, lease.Owner, held.Lease.Owner, "a refusal says who holds the name")
	}},
}
