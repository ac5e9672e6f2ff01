import Configuration
import PushRecords
import Worker

private let schemaTable = OptionTable<Void>(
    command: "apns-worker schema", usage: ["", "NAME"],
    about: [
        "Prints the JSON Schema (draft 2020-12) of a record that the worker reads or writes, or one AsyncAPI 3.0 document of all topics, with their default names. Without a name the command lists the schemas.",
        "Example: apns-worker schema result",
    ],
    options: [],
    notes:
        "Later versions may add members to the records that the worker writes: ignore unknown members.\nA schema of headers describes an object of strings: {\"outcome\": \"rejected\", \"reason\": \"BadTopic\"}.\nThe worker accepts a request that its schema allows; the schema's description lists the exceptions.\nExit codes: 0 printed, 64 wrong usage."
)

func printSchema(_ arguments: [String]) throws -> ExitCode {
    let (name, rest) = operand(arguments)
    try parsed(schemaTable, rest, ())
    let documents =
        RecordSchema.allCases.map { (name: $0.rawValue, summary: $0.summary) }
        + [(name: "asyncapi", summary: AsyncAPIDocument.summary)]
    guard let name else {
        let width = documents.map(\.name.count).max() ?? 0
        for document in documents { say("\(padded(document.name, to: width))  \(document.summary)\n") }
        return .fine
    }
    if name == "asyncapi" {
        say(AsyncAPIDocument.text(version: BuildInfo.version))
    } else if let schema = RecordSchema(rawValue: name) {
        say(schema.text)
    } else {
        throw unknown("schema", name, among: documents.map(\.name))
    }
    return .fine
}
