// Sends a case's messages to all ranks of a program, and writes and reads its files of vectors.
#include <truestep/gate/program_case.hpp>

#include <fstream>
#include <system_error>
#include <utility>

#include <truestep/problem/error.hpp>

namespace truestep::gate {

std::string ProgramFiles::write(const std::string& what, std::span<const std::byte> bytes) const {
    std::string name = path(what);
    std::ofstream file(name, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!file.flush())
        throw Error(name + " cannot be written; is there room for it? See TRUESTEP_SCRATCH");
    return name;
}

std::string ProgramFiles::take(const std::string& what, std::span<std::byte> bytes) const {
    const std::string name = path(what);
    const std::string wrong = "left no '" + what + "': " + name;
    std::error_code error;
    const auto size = std::filesystem::file_size(name, error);
    if (error)
        return wrong + " is not a file";
    if (size != bytes.size())
        return wrong + " has " + std::to_string(size) + " bytes; it must have " +
               std::to_string(bytes.size());
    std::ifstream file(name, std::ios::binary);
    if (!file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size())))
        return wrong + " cannot be read";
    file.close();
    std::filesystem::remove(name, error);
    return {};
}

void ProgramCase::move_to(int workers) {
    folder_ = programs_.folder(workers);
    workers_ = workers;
}

std::vector<Programs::Json> ProgramCase::ask(const std::function<Json(int rank)>& message,
                                             const std::vector<std::string>& expected) {
    std::vector<Json> messages;
    messages.reserve(static_cast<std::size_t>(workers_));
    for (int rank = 0; rank < workers_; ++rank)
        messages.push_back(message(rank));
    return programs_.ask(workers_, std::move(messages), expected);
}

std::vector<Programs::Json> ProgramCase::with_folder(const std::string& what,
                                                     const std::filesystem::path& folder,
                                                     std::vector<std::string> expected) {
    expected.insert(expected.begin(), what);
    return ask([&](int) { return Json{{"do", what}, {"folder", folder.string()}}; }, expected);
}

std::vector<Programs::Json> ProgramCase::view(const std::vector<std::string>& names) {
    const auto message = [&](int rank) {
        Json into = Json::object();
        for (const std::string& name : names)
            into[name] = ProgramFiles(folder_, rank).path(name);
        return Json{{"do", "view"}, {"into", std::move(into)}};
    };
    return ask(message, {"view"});
}

void ProgramCase::take(int rank, const std::string& what, std::span<std::byte> bytes) {
    if (const std::string fault = ProgramFiles(folder_, rank).take(what, bytes); !fault.empty())
        fail(rank, fault);
}

std::int64_t ProgramCase::number(int rank, const Json& answer, const char* key, const std::string& said,
                                 const std::string& is) {
    try {
        return whole_number(answer, key);
    } catch (const Error& error) {
        fail(rank, said + ", but " + error.what() + is);
    }
}

} // namespace truestep::gate
