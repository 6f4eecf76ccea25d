package console

// Routes are the patterns of the pages.
var Routes = routes()
