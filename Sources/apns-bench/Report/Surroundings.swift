import Glibc
import JSON

/// When and where a run was made.
struct Surroundings {
    /// RFC 3339, UTC.
    let at: String
    /// The processor's name and how many of it there are.
    let processor: String
    /// `git describe` of the working directory; `nil`: it is no repository.
    let commit: String?

    init(_ programs: Programs, _ scratch: Scratch) {
        var seconds = time(nil)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        let numbers = [parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec].map {
            padded("\($0)", 2)
        }
        at = "\(parts.tm_year + 1_900)-\(numbers[0])-\(numbers[1])T\(numbers[2]):\(numbers[3]):\(numbers[4])Z"
        let model = contents(of: "/proc/cpuinfo")?.split(separator: "\n").first { $0.hasPrefix("model name") }
        let name = model?.split(separator: ":").last.map { $0.drop { $0 == " " } } ?? "unknown processor"
        processor = "\(sysconf(Int32(_SC_NPROCESSORS_ONLN))) x \(name)"
        commit = Self.commit(scratch)
    }

    private static func commit(_ scratch: Scratch) -> String? {
        guard let git = Programs.find("git"),
            let child = try? Child("git", [git, "describe", "--always", "--dirty", "--abbrev=12"], scratch: scratch),
            (try? child.wait(until: Deadline(seconds: 10))) != nil
        else { return nil }
        return child.output.split(separator: "\n").last.map { String($0) }
    }

    func write(to json: inout JSONWriter) {
        json.member("at", at)
        json.member("processor", processor)
        json.member("commit", commit)
    }
}
