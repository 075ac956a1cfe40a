// Runs the tool, and edits trace files, for the tests of verify/ and the tool.
#include "support.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <truestep/verify/scape/trace.hpp>

extern char** environ; // NOLINT: POSIX declares it nowhere

namespace truestep::verify::scape::support {

namespace {

void require(bool condition, const std::string& text) {
    if (!condition)
        throw std::runtime_error("test support: " + text);
}

/// The environment of this process with changes, as `execve` wants it.
class Environment {
  public:
    explicit Environment(const std::map<std::string, std::string>& changes) {
        for (char** entry = environ; *entry != nullptr; ++entry) {
            const std::string text = *entry;
            const std::string name = text.substr(0, text.find('='));
            // The person who runs the tests may have set it; here only the tests decide.
            if (!changes.contains(name) && name != "NO_COLOR")
                texts_.push_back(text);
        }
        for (const auto& [name, value] : changes)
            texts_.emplace_back(name).append("=").append(value);
        for (std::string& text : texts_)
            pointers_.push_back(text.data());
        pointers_.push_back(nullptr);
    }

    [[nodiscard]] char** get() { return pointers_.data(); }

  private:
    std::vector<std::string> texts_;
    std::vector<char*> pointers_;
};

pid_t start_tool(const std::vector<std::string>& arguments,
                 const std::map<std::string, std::string>& changes, const std::string& output,
                 const std::string& errors) {
    std::vector<std::string> words{TRUESTEP_TOOL};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    pointers.reserve(words.size() + 1);
    for (std::string& word : words)
        pointers.push_back(word.data());
    pointers.push_back(nullptr);
    Environment environment(changes);

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const auto redirect = [&](int descriptor, const std::string& path) {
        posix_spawn_file_actions_addopen(&actions, descriptor, path.c_str(),
                                         O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY, 0600);
    };
    redirect(STDOUT_FILENO, output);
    redirect(STDERR_FILENO, errors);
    pid_t child = 0;
    const int failed =
        posix_spawn(&child, TRUESTEP_TOOL, &actions, nullptr, pointers.data(), environment.get());
    posix_spawn_file_actions_destroy(&actions);
    require(failed == 0, "the tool cannot be started");
    return child;
}

int status_of(pid_t child) {
    int status = 0;
    require(waitpid(child, &status, 0) == child, "the tool cannot be waited for");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

} // namespace

TemporaryFolder::TemporaryFolder() {
    std::string pattern = ::testing::TempDir() + "verify_test_XXXXXX";
    require(mkdtemp(pattern.data()) != nullptr, "no temporary folder");
    path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::string load(const std::filesystem::path& path) {
    std::ifstream stream(path, std::ios::binary);
    require(stream.good(), "cannot read " + path.string());
    return {std::istreambuf_iterator<char>(stream), {}};
}

void store(const std::filesystem::path& path, std::string_view bytes) {
    std::ofstream stream(path, std::ios::binary);
    stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    stream.close();
    require(!stream.fail(), "cannot write " + path.string());
}

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

RecordOptions small_run(problem::Algorithm algorithm, const problem::HyperParameters& settings, int workers,
                        problem::PartitionRule rule) {
    return {
        problem::make_problem(algorithm, workers,
                              problem::Layout({{"wq", 30, false}, {"norm", 5, true}, {"mlp", 46, false}}),
                              rule, settings),
        problem::DensitySchedule::constant(0.25),
        5,
        0.01,
        0.005,
        7,
        DataClass::normal,
        {},
        true,
        "a test"};
}

void record_with(const std::filesystem::path& path, const RecordOptions& options,
                 const std::function<void(Index step, Run<float>& run)>& before) {
    const Index size = options.problem.layout.size();
    TraceHead head{options.source, options.problem, {}, {}, {}};
    head.learning_rate.assign(static_cast<std::size_t>(options.steps), options.learning_rate);
    for (Index step = 1; step <= options.steps + 1; ++step)
        head.density.push_back(options.density.at(step));
    head.initial_parameters = initial_parameters(options.data, options.seed, size);
    Run<float> run(options.problem, options.density,
                   Eigen::Map<const Vector<float>>(head.initial_parameters.data(), size));
    TraceWriter writer(path, head, options.intermediates);
    for (Index step = 1; step <= options.steps; ++step) {
        PerRank<float> gradients;
        for (int rank = 0; rank < options.problem.workers; ++rank) {
            gradients.emplace_back(size);
            for (Index index = 0; index < size; ++index)
                gradients.back()[index] = gradient_value(options.data, options.seed, rank, step, index);
        }
        for (const Injection& injection : options.injections)
            if (injection.step == step)
                gradients[static_cast<std::size_t>(injection.rank)][injection.index] = injection.value;
        before(step, run);
        writer.write_step(gradients, run.step(gradients, options.learning_rate));
    }
    writer.finish();
}

std::uint64_t data_offset(const std::filesystem::path& path, const std::string& tensor) {
    const SafetensorsFile file(path);
    const TensorEntry* entry = file.find(tensor);
    require(entry != nullptr, path.string() + " has no tensor " + tensor);
    return file.data_offset() + entry->begin;
}

void read_bytes(const std::filesystem::path& path, std::uint64_t offset, void* bytes, std::size_t count) {
    std::ifstream stream(path, std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(offset));
    stream.read(static_cast<char*>(bytes), static_cast<std::streamsize>(count));
    require(stream.good(), "cannot read from " + path.string());
}

void write_bytes(const std::filesystem::path& path, std::uint64_t offset, const void* bytes,
                 std::size_t count) {
    std::fstream stream(path, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(static_cast<std::streamoff>(offset));
    stream.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(count));
    stream.close();
    require(!stream.fail(), "cannot write into " + path.string());
}

bool mask_bit(const std::filesystem::path& path, const std::string& tensor, Index index) {
    return ((element<std::uint8_t>(path, tensor, index / 8) >> static_cast<unsigned>(index % 8)) & 1U) != 0;
}

void flip_mask_bit(const std::filesystem::path& path, const std::string& tensor, Index index) {
    const auto byte = element<std::uint8_t>(path, tensor, index / 8);
    set_element(path, tensor, index / 8,
                static_cast<std::uint8_t>(byte ^ (1U << static_cast<unsigned>(index % 8))));
}

FileImage::FileImage(const std::filesystem::path& path) {
    const SafetensorsFile file(path);
    metadata = file.metadata();
    for (const TensorEntry& entry : file.tensors()) {
        if (entry.type == DataType::f32)
            tensors.push_back({entry.name, entry.shape, file.read_f32(entry.name)});
        else if (entry.type == DataType::f64)
            tensors.push_back({entry.name, entry.shape, file.read_f64(entry.name)});
        else if (entry.type == DataType::u64)
            tensors.push_back({entry.name, entry.shape, file.read_u64(entry.name)});
        else
            tensors.push_back({entry.name, entry.shape, file.read_u8(entry.name)});
    }
}

void FileImage::save(const std::filesystem::path& path) const {
    constexpr std::array types{DataType::f32, DataType::f64, DataType::u8, DataType::u64};
    SafetensorsWriter writer(path, metadata);
    for (const Tensor& tensor : tensors)
        writer.declare(tensor.name, types[tensor.data.index()], tensor.shape);
    for (const Tensor& tensor : tensors) {
        if (const auto* floats = std::get_if<std::vector<float>>(&tensor.data))
            writer.write_f32(tensor.name, *floats);
        else if (const auto* doubles = std::get_if<std::vector<double>>(&tensor.data))
            writer.write_f64(tensor.name, *doubles);
        else if (const auto* numbers = std::get_if<std::vector<std::uint64_t>>(&tensor.data))
            writer.write_u64(tensor.name, *numbers);
        else
            writer.write_u8(tensor.name, std::get<std::vector<std::uint8_t>>(tensor.data));
    }
    writer.finish();
}

FileImage::Tensor& FileImage::at(const std::string& name) {
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const Tensor& tensor) { return tensor.name == name; });
    require(found != tensors.end(), "no tensor " + name);
    return *found;
}

void FileImage::drop(const std::string& part) {
    const std::size_t dropped =
        std::erase_if(tensors, [&](const Tensor& tensor) { return contains(tensor.name, part); });
    require(dropped > 0, "no tensor's name contains " + part);
}

void FileImage::drop_result(std::string_view result) {
    std::string part = "/";
    part += result;
    const std::size_t dropped = std::erase_if(tensors, [&](const Tensor& tensor) {
        return tensor.name.starts_with("step/") && contains(tensor.name, part);
    });
    require(dropped > 0, "no step has " + part);
}

void FileImage::replace_in_config(const std::string& old_part, const std::string& new_part) {
    std::string& config = metadata.at("config");
    const std::size_t found = config.find(old_part);
    require(found != std::string::npos, "the config has no " + old_part);
    config.replace(found, old_part.size(), new_part);
}

void FileImage::keep_steps(Index steps) {
    auto& rates = std::get<std::vector<double>>(at("learning_rate").data);
    auto& densities = std::get<std::vector<double>>(at("density").data);
    const auto had = static_cast<Index>(rates.size());
    rates.resize(static_cast<std::size_t>(steps));
    densities.resize(static_cast<std::size_t>(steps + 1));
    at("learning_rate").shape = {rates.size()};
    at("density").shape = {densities.size()};
    for (Index step = steps + 1; step <= had; ++step)
        drop(gradient_name(step, 0).substr(0, std::string("step/0001/").size()));
    replace_in_config("\"steps\":" + std::to_string(had), "\"steps\":" + std::to_string(steps));
}

Index mismatched(const TraceVerdict& verdict) {
    Index sum = 0;
    for (const Row& one : verdict.rows)
        sum += one.mismatched;
    return sum;
}

const Row& row(const TraceVerdict& verdict, const std::string& result) {
    const auto found = std::find_if(verdict.rows.begin(), verdict.rows.end(),
                                    [&](const Row& one) { return one.result == result; });
    require(found != verdict.rows.end(), "no row " + result);
    return *found;
}

ToolResult run_tool(const std::vector<std::string>& arguments,
                    const std::map<std::string, std::string>& environment) {
    const TemporaryFolder folder;
    const auto output = folder / "output";
    const auto errors = folder / "errors";
    ToolResult result;
    result.status = status_of(start_tool(arguments, environment, output.string(), errors.string()));
    result.output = load(output);
    result.errors = load(errors);
    return result;
}

ToolResult run_tool_on_terminal(const std::vector<std::string>& arguments,
                                const std::map<std::string, std::string>& environment) {
    const TemporaryFolder folder;
    const auto errors = folder / "errors";
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    const char* device =
        terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0 ? ptsname(terminal) : nullptr;
    if (device == nullptr) {
        if (terminal >= 0)
            close(terminal);
        return {};
    }
    ToolResult result;
    const pid_t child = start_tool(arguments, environment, device, errors.string());
    // The read fails when the last process has closed the terminal.
    char buffer[4096];
    for (ssize_t count = 0; (count = read(terminal, buffer, sizeof buffer)) > 0;)
        result.output.append(buffer, static_cast<std::size_t>(count));
    result.status = status_of(child);
    close(terminal);
    result.errors = load(errors);
    return result;
}

std::vector<std::string> lines(const std::string& text) {
    std::vector<std::string> result;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);)
        result.push_back(line);
    return result;
}

std::string last_line(const std::string& text) {
    const auto all = lines(text);
    return all.empty() ? std::string() : all.back();
}

} // namespace truestep::verify::scape::support
