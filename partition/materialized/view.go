// Package materialized keeps views: records that are computed from many entries. Commits do not
// write these records. A [Manager] follows the commits and updates the records, and a
// reader adds the effects of the commits that the Manager has not reached yet. So the
// records that [Read] returns are always equal to the result of evaluating the definition
// in the reader's state, even if that is a past state (docs/decisions/0035-views.md).
//
// Entries are divided into lanes by their ids. A step takes one lane of one view from the
// boundary W to the boundary Next, two states that do not change any more:
//
//  1. It announces Next: it swaps Next into the lane's cursor before it writes anything.
//     If a step was announced already, it continues that step.
//  2. It holds snapshots of both states. If W is below the horizon of history, the view is
//     built again, in a new table.
//  3. It takes the entries that were touched by commits between the two states. For each
//     record, it computes what these entries contribute at Next, less what they
//     contributed at W.
//  4. It adds the differences to the parts as of W, and writes the sums at revision Next.
//  5. When all writes are acknowledged, it writes that the step to Next is finished. Then
//     it swaps W = Next into the cursor.
//
// The result depends only on the two states. So several servers may make one step at the
// same time, and a write may be late or repeated. The model "lane" of store/txn/model
// explores this. A view's first step begins from nothing and takes all entries.
//
// On an embedded store, a step after the first is one batch with the cursor in it, except a
// very large step. A batch needs no announcement.
//
// A definition has a key, which also covers what else the records depend on (the schema,
// erasures). If the key changes, a new generation of the view begins, in a new table.
package materialized
