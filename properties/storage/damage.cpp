// Judges whether damaged files are refused.
#include <nlohmann/json.hpp>

#include "trial.hpp"

namespace truestep::properties::storage {

namespace {

namespace fs = std::filesystem;

/// Files that contradict themselves, each by what is wrong.
std::map<std::string, std::string> damaged_files(const Case& run, const Content& content) {
    const nlohmann::ordered_json header = header_of(content);
    const std::string whole = file_around(header.dump(), content);
    std::map<std::string, std::string> all;
    all["its first part alone"] = whole.substr(0, run.random(For::damage) % whole.size());
    all["a byte too many"] = whole + ' ';
    all["a longer header than file"] = whole;
    all["a longer header than file"][5] = 1;
    all["all but its last byte"] = whole.substr(0, whole.size() - 1);
    all["a header without its first byte"] = file_around(header.dump().substr(1), content);
    const auto with = [&](const std::string& what, const auto& change) {
        nlohmann::ordered_json changed = header;
        change(changed);
        all[what] = file_around(changed.dump(), content);
    };
    with("words that are no object", [](auto& changed) { changed["__metadata__"] = 1; });
    with("a word that is a number", [](auto& changed) { changed["__metadata__"]["number"] = 1; });
    if (content.tensors.empty())
        return all;
    const std::size_t which = run.random(For::damage, {1}) % content.tensors.size();
    const Tensor& tensor = content.tensors[which];
    const auto in_tensor = [&](const std::string& what, const auto& change) {
        with(what, [&](auto& changed) { change(changed[tensor.name]); });
    };
    for (const char* const member : {"dtype", "shape", "data_offsets"}) {
        in_tensor(std::string("no ") + member, [&](auto& entry) { entry.erase(member); });
        in_tensor(std::string("another ") + member, [&](auto& entry) { entry[member] = nullptr; });
    }
    in_tensor("an unknown type", [](auto& entry) { entry["dtype"] = "F33"; });
    in_tensor("a negative dimension", [](auto& entry) { entry["shape"].push_back(-1); });
    in_tensor("half a dimension", [](auto& entry) { entry["shape"].push_back(1.5); });
    in_tensor("an end that is later", [](auto& entry) {
        entry["data_offsets"][1] = entry["data_offsets"][1].template get<std::uint64_t>() + 1;
    });
    in_tensor("a begin that is later", [](auto& entry) {
        entry["data_offsets"][0] = entry["data_offsets"][0].template get<std::uint64_t>() + 1;
    });
    in_tensor("a third offset", [](auto& entry) { entry["data_offsets"].push_back(0); });
    if (!tensor.bytes.empty())
        in_tensor("a larger shape", [](auto& entry) { entry["shape"].push_back(2); });
    std::string twice = header.dump();
    twice.back() = ',';
    twice += nlohmann::json(tensor.name).dump() + ":" + header[tensor.name].dump() + "}";
    all["a tensor that is named twice"] = file_around(twice, content);
    return all;
}

} // namespace

void is_refused_after_damage(Trial& trial) {
    const Content content = content_of(trial.run);
    const Path folder = trial.implementation.folder();
    const auto files = trial.implementation.over(truestep::storage::disk(), trial.run);
    const Path path = folder / "damaged";
    put(path, file_around(header_of(content).dump(), content));
    trial.holds(truestep::storage::SafetensorsFile(path, *files).tensors().size() == content.tensors.size(),
                "a file without damage has other tensors");
    for (const auto& [what, bytes] : damaged_files(trial.run, content)) {
        put(path, bytes);
        trial.refused(path, ": byte ", "a file with " + what,
                      [&] { truestep::storage::SafetensorsFile(path, *files); });
    }
    fs::remove_all(folder);
}

} // namespace truestep::properties::storage
