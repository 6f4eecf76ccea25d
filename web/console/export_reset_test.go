package console

// Deliver sends the link of a reset.
var Deliver = (*Mail).deliver
