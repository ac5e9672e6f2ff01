import Configuration
import PushRecords

private struct SchemaOptions {
    var file: String?

    static let table = OptionTable<Self>(
        command: "apns-worker schema", usage: ["", "NAME", "asyncapi [--config FILE]"],
        about: [
            "Prints the JSON Schema (draft 2020-12) of a record that the worker reads or writes, or the AsyncAPI 3.0 document of all of them. Without a name it lists what there is."
        ],
        options: [
            .init(
                "config", "c", value: "FILE", to: \.file,
                "The worker's configuration: names the topics and groups of asyncapi.")
        ],
        notes:
            "Members are only ever added to what the worker writes: ignore what you do not know.\nHeaders are checked as one object of their texts: {\"outcome\": \"rejected\", \"reason\": \"BadTopic\"}.\nWhat the schema of a request allows the worker takes, but for what its description names.\nExit codes: 0 printed, 64 wrong usage, 78 wrong configuration."
    )
}

/// `apns-worker schema`.
func printSchema(_ arguments: [String]) throws -> ExitCode {
    let (name, rest) = operand(arguments)
    let options = try parsed(SchemaOptions.table, rest, SchemaOptions())
    let documents =
        RecordSchema.allCases.map { (name: $0.rawValue, summary: $0.summary) }
        + [(name: "asyncapi", summary: AsyncAPIDocument.summary)]
    if options.file != nil, name != "asyncapi" {
        throw UsageError("--config is for asyncapi, which names topics")
    }
    guard let name else {
        let width = documents.map(\.name.count).max() ?? 0
        for document in documents { say("\(padded(document.name, to: width))  \(document.summary)\n") }
        return .fine
    }
    if let schema = RecordSchema(rawValue: name) {
        say(schema.text)
        return .fine
    }
    guard name == "asyncapi" else {
        let names = documents.map(\.name)
        let suggestion =
            nearest(to: name, among: names).map { "did you mean \($0)?" }
            ?? "expected one of \(names.joined(separator: ", "))"
        throw UsageError("there is no schema \(printable(name)); \(suggestion)")
    }
    let configuration =
        try options.file.map { try WorkerConfiguration.load(file: $0).configuration }
        ?? WorkerConfiguration(kafka: KafkaSettings(bootstrapServers: ""), apps: [])
    let document = AsyncAPIDocument(
        version: version, groupID: configuration.kafka.groupID,
        requests: configuration.requestTopics.map { ($0.name, $0.isPattern) },
        results: configuration.results.topic, unregistered: configuration.unregistered.topic,
        deadLetters: configuration.deadLetters.topic,
        tiers: configuration.retry.tiers.map { ($0.name, $0.topic) })
    say(document.text)
    return .fine
}
