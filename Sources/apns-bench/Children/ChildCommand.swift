import Configuration

/// What the commands that are children of the bench have in common: reads the arguments, then shows the help or does
/// the work. Returns the exit code: 0, or 1 after one line on standard error.
///
/// - Parameter prefix: stands before an error's text.
func runChild<Options>(
    _ table: OptionTable<Options>, _ arguments: [String], _ defaults: Options, prefix: String = "",
    _ work: (Options) throws -> Void
) -> Int32 {
    do {
        switch try table.parse(arguments, defaults) {
        case .help: say(table.help)
        case .values(let options): try work(options)
        }
        return 0
    } catch {
        complain("\(prefix)\(error)")
        return 1
    }
}
