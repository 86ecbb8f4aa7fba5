package census_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/aaravsoft/leasehold/internal/census"
)

func TestBubble(t *testing.T) {
	assert.Zero(t, census.Bubble(), "there is no bubble here")
	outside := make(chan struct{})
	defer close(outside)
	go func() { <-outside }()
	synctest.Test(t, func(t *testing.T) {
		before := census.Bubble()
		assert.Positive(t, before)
		end := make(chan struct{})
		for range 100 {
			go func() { <-end }()
		}
		synctest.Wait()
		assert.Equal(t, before+100, census.Bubble())
		close(end)
		synctest.Wait()
		assert.Equal(t, before, census.Bubble())
	})
}
