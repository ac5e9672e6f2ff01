import EventLoop
import HTTP2
import PushRecords

extension Dialogue {
    /// Answers a request of channel management, at once: faults are of notifications.
    func manage(_ fields: RequestFields, stream: Int32, now: LoopTime) throws(HTTP2Error) {
        let check = ManagementCheck(common: check)
        var (target, refusal) = check.target(fields)
        if refusal == .none, service.wantsProviderToken, !check.common.isCertificate {
            refusal = credential.check(
                fields.authorization, reader: &service.reader, lifetimes: service.lifetimes, wallMs: now.wallMs)
        }
        var answer = ManagementCheck.Answer(refusal)
        if let target, refusal == .none {
            answer = check.answer(target, fields, body: session.body)
            // A channel id may ask for an answer, as a device token may.
            if case .answer(let wanted)? = TokenTable.entry(for: service.channelHex(fields.channelID))?.fault {
                answer = ManagementCheck.Answer(wanted.reason)
                answer.status = wanted.status
            }
        }
        try write(answer, id: check.common.uuid(fields.requestID) ?? service.replies.newID(), stream: stream)
        try openAllStreams()
    }

    private func write(
        _ answer: ManagementCheck.Answer, id: NotificationUUID, stream: Int32
    ) throws(HTTP2Error) {
        // Lent to the list until the session has taken it.
        let text = UnsafeMutableRawBufferPointer.allocate(byteCount: 320, alignment: 1)
        defer { text.deallocate() }
        var used = 0
        func lend(_ value: String) -> UnsafeRawBufferPointer {
            let start = used
            for byte in value.utf8.prefix(text.count - used) {
                text[used] = byte
                used += 1
            }
            return UnsafeRawBufferPointer(rebasing: text[start..<used])
        }
        var headers = HeaderList()
        headers.append(":status", lend("\(answer.status)"))
        headers.append("apns-request-id", lend(id.description), .never)
        if let channelID = answer.channelID { headers.append("apns-channel-id", lend(channelID), .never) }
        var body = answer.body
        if let reason = answer.reason.text { body = "{\"reason\":\"\(reason)\"}" }
        if !body.isEmpty { headers.append("content-type", "application/json") }
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: body.utf8.count, alignment: 1)
        defer { bytes.deallocate() }
        bytes.copyBytes(from: body.utf8)
        _ = try session.respond(stream: stream, headers, body: UnsafeRawBufferPointer(bytes))
    }
}
