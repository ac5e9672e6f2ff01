internal import Configuration
internal import Delivery
internal import PushRecords

/// A notification that is sent straight to APNs, and the app it is for. The request's bytes live as long as the
/// process: a transport may hold them after it was given up.
struct DirectOrder {
    let settings: AppSettings
    let topic: String
    let request: OutgoingRequest

    /// Why there is none.
    enum Refusal: Error {
        /// A worker's result would say so.
        case invalid(Reason?, detail: String, apnsTopic: String)
        case failure(DirectSend.Failure)
    }

    /// Finds the app as a worker does.
    init(_ record: RequestRecord, _ configuration: WorkerConfiguration) throws(Refusal) {
        var directory = AppDirectory(
            configuration.apps.map { AppRoute(name: $0.name, environment: $0.environment, bundleIDs: $0.bundleIDs) })
        var headers: [RecordHeader] = []
        for header in record.headers {
            headers.append(RecordHeader(name: Self.keep(header.name.utf8), value: Self.keep(header.value)))
        }
        let key = record.key.map { Self.keep($0) } ?? .nothing
        let value = Self.keep(record.value)
        var parser = RequestParser()
        let parsed = headers.withUnsafeBufferPointer {
            parser.parse(key: key, value: value, headers: $0, role: .request)
        }
        guard parsed.target == .device, !parsed.isInvalid else {
            throw .failure(DirectSend.Failure("not a notification for one device: \(parsed.detail.text)"))
        }
        switch directory.find(
            name: parsed.app, environment: parsed.environment, topic: parsed.headers.topic,
            pushType: parsed.headers.pushType)
        {
        case .failure(let reason, let text, let subject):
            let topic = String(decoding: parsed.headers.topic, as: UTF8.self)
            let about =
                switch subject {
                case .name: ": \(String(decoding: parsed.app, as: UTF8.self))"
                case .topic: ": \(topic)"
                case .nothing: ""
                }
            throw .invalid(reason.reason, detail: "\(text)\(about)", apnsTopic: topic)
        case .app(let app, let defaultTopic):
            settings = configuration.apps[app.value]
            guard settings.binary == nil else {
                throw .failure(
                    DirectSend.Failure(
                        "app \(settings.name) has transport: binary, and --direct speaks HTTP/2 only: leave it out"))
            }
            // The directory's own bytes go with it.
            let topic = parsed.headers.topic.isEmpty ? defaultTopic : parsed.headers.topic
            self.topic = String(decoding: topic, as: UTF8.self)
        }
        var sent = parsed.headers
        sent.topic = Self.keep(topic.utf8)
        if sent.apnsID == .none { sent.apnsID = .random() }
        request = OutgoingRequest(
            id: NotificationID(slot: NotificationSlot(0), generation: 0), token: parsed.token, payload: parsed.payload,
            headers: sent)
    }

    private static func keep(_ bytes: some Collection<UInt8>) -> UnsafeRawBufferPointer {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
        copy.copyBytes(from: bytes)
        return UnsafeRawBufferPointer(copy)
    }
}
