// Damages one file of a folder.
#include <truestep/properties/scape/damage.hpp>

#include <algorithm>
#include <fstream>
#include <vector>

#include <truestep/problem/error.hpp>

namespace truestep::properties::scape {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_in(const fs::path& folder) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
        if (entry.is_regular_file() && entry.file_size() > 0)
            files.push_back(entry.path());
    std::ranges::sort(files);
    return files;
}

void turn_bit(const fs::path& path, std::int64_t byte, int bit) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(byte);
    const int was = file.get();
    file.seekp(byte);
    file.put(static_cast<char>(was ^ (1 << bit)));
    file.close();
    if (!file)
        throw Error(path.string() + " could not be changed; check that it can be written");
}

} // namespace

std::string make_damage(const fs::path& folder, const Damage& damage) {
    const std::vector<fs::path> files = files_in(folder);
    if (files.empty())
        return {};
    const fs::path& file = files[static_cast<std::size_t>(damage.file) % files.size()];
    const std::string name = file.lexically_relative(folder).string();
    const auto size = static_cast<std::int64_t>(fs::file_size(file));
    switch (damage.kind) {
    case Damage::Kind::shorter:
        fs::resize_file(file, static_cast<std::uintmax_t>(size - 1));
        return name + " without the last of its " + std::to_string(size) + " bytes";
    case Damage::Kind::longer:
        fs::resize_file(file, static_cast<std::uintmax_t>(size + 1));
        return name + " with a byte behind its " + std::to_string(size);
    case Damage::Kind::bit:
        break;
    case Damage::Kind::none:
        return name + " as it was";
    }
    const std::int64_t byte = (damage.byte % size + size) % size;
    turn_bit(file, byte, damage.bit);
    return name + " with bit " + std::to_string(damage.bit) + " of byte " + std::to_string(byte) + " of " +
           std::to_string(size) + " turned over";
}

} // namespace truestep::properties::scape
