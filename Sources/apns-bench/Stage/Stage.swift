/// What all measurements of a run share: broker, topics, server, programs. Things are started when first asked for.
final class Stage {
    let options: BenchOptions
    let programs: Programs
    let scratch: Scratch
    let broker: Broker
    let topics: RunTopics
    let traffic: Traffic
    private var filled: [String: RequestTopic] = [:]
    private var pushServer: PushServer?
    private var certificates: ServerCertificates?

    init(_ options: BenchOptions, _ programs: Programs, _ scratch: Scratch) throws {
        self.options = options
        self.programs = programs
        self.scratch = scratch
        broker = try Broker(options, java: programs.java, scratch: scratch)
        topics = RunTopics(broker, partitions: options.partitions)
        traffic = Traffic(devices: options.devices)
    }

    /// A topic with so many notifications, rounded down to whole records; filled once a run.
    func requests(_ form: RequestForm, count: Int) throws -> RequestTopic {
        let word = "\(form.word).\(count)"
        if let topic = filled[word] { return topic }
        let whole = max(1, count / form.tokensPerRecord) * form.tokensPerRecord
        let topic = RequestTopic(
            name: try topics.newRequests(word), form: form, count: whole, partitions: options.partitions)
        progress("writing \(whole) notifications (\(form.word))")
        try fill(topic, of: broker, traffic)
        filled[word] = topic
        return topic
    }

    /// The certificate of servers that the bench starts.
    func serverCertificates() throws -> ServerCertificates {
        if let certificates { return certificates }
        let made = try ServerCertificates(scratch)
        certificates = made
        return made
    }

    /// nghttpd.
    func server() throws -> PushServer {
        if let pushServer { return pushServer }
        progress("starting nghttpd")
        let server = try PushServer(
            Programs.nghttpd(), port: options.serverPort, traffic, serverCertificates(), scratch: scratch)
        pushServer = server
        return server
    }
}
