// Package storetest checks an implementation of [store.Store], and of [store.Inspector], against the rules in the
// comment of package store. A failure quotes the rule that was broken:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, storetest.Harness{
//			Open: func(t *testing.T) store.Store { … an empty store, closed in t.Cleanup … },
//		})
//	}
//
// That is enough for a store with a real clock. The other fields of [Harness] say what else can be done with the
// store, and so be checked: a second client of the same data, a clock that can be stepped, a testing/synctest bubble.
//
// What the suite leaves to the tests of each store: all that happens between a statement and its reply (rules S10 and
// S11 on lost replies, S8 on claims blocked by another session), since it takes the store's own faults to bring about.
package storetest
