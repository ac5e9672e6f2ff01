import Configuration
import PushRecords

/// `apns-worker schema`.
func printSchema(_ arguments: [String]) -> ExitCode {
    struct Nothing {}
    let (name, rest) = operand(arguments)
    switch parsed(schemaTable(Nothing.self), rest, Nothing()) {
    case .failure(let exit): return exit.code
    case .success: break
    }
    let names = RecordSchema.allCases.map(\.rawValue)
    guard let name else {
        let width = names.map(\.count).max() ?? 0
        for schema in RecordSchema.allCases {
            say("\(padded(schema.rawValue, to: width))  \(schema.summary)\n")
        }
        return .fine
    }
    guard let schema = RecordSchema(rawValue: name) else {
        let suggestion =
            nearest(to: name, among: names).map { "did you mean \($0)?" }
            ?? "expected one of \(names.joined(separator: ", "))"
        complain("apns-worker schema: there is no schema \(printable(name)); \(suggestion)")
        return .wrongUsage
    }
    say(schema.text.description)
    return .fine
}

private func schemaTable<Values>(_: Values.Type) -> OptionTable<Values> {
    OptionTable<Values>(
        command: "apns-worker schema", usage: ["", "NAME"],
        about: [
            "Prints the JSON Schema (draft 2020-12) of a record that the worker reads or writes; without a name, what there is."
        ], options: [],
        notes:
            "Members are only ever added to what the worker writes: ignore what you do not know.\nHeaders are checked as one object of their texts: {\"outcome\": \"rejected\", \"reason\": \"BadTopic\"}."
    )
}
